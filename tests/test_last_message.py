"""The state of the work: the agent's last list, what is of the past, and lines of the goal's code."""

from pathlib import Path

import pytest
from making import derived, thread_of

from tasuki.draft import state
from tasuki.model import Item
from tasuki.testing import ThreadBuilder

LIST = "Three ways:\n1. Cache the tokens\n2. **Ask** the server\n3. Give up\nWhich one?"


def last(folder: Path, text: str, goal: str) -> list[Item]:
    """What is told of the agent's last message."""
    return list(
        state.last_message(
            thread_of(ThreadBuilder("claude").user("go").assistant(text), folder), goal
        )
    )


def lines(builder: ThreadBuilder, folder: Path, goal: str) -> list[str]:
    """The lines of code that are told for a goal."""
    return [i.text for i in state.goal_lines(thread_of(builder, folder), goal)]


def states(builder: ThreadBuilder, folder: Path) -> dict[str, str]:
    """Text of the state lines by label."""
    thread = thread_of(builder, folder)
    return {i.label: i.text for i in state.items(thread, derived(builder, folder).facts)}


def test_a_goal_that_answers_the_last_message_is_told_what_it_answers(tmp_path: Path) -> None:
    """`1. yup` means nothing without the list that it answers; that is told with its entry."""
    (item,) = last(tmp_path, LIST, "1. yup, and 2. too")

    assert item.text == "1. Cache the tokens · 2. Ask the server · 3. Give up"
    assert item.refs == (2,)
    assert item.label == "The last message, which the goal answers"


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("One way:\n1. Cache the tokens\nShall I?", "yes"),
        ("Done:\n1. Cached the tokens\n2. Asked the server", "write the changelog now"),
        (LIST, "Rewrite the importer so that it streams its input. " * 6),
        ("No list at all?", "option 2"),
    ],
)
def test_a_goal_that_answers_no_list_is_told_none(text: str, goal: str, tmp_path: Path) -> None:
    """One item is no list, a report asks nothing, and a long goal stands for itself."""
    assert last(tmp_path, text, goal) == []


def test_a_todo_list_of_long_ago_tells_its_age(tmp_path: Path) -> None:
    """When the user went on to other things its current item is not under way any more."""
    todos = (("write the parser", "in_progress"), ("write the docs", "pending"))
    fresh = ThreadBuilder("claude").user("go").todos(*todos)
    old = ThreadBuilder("claude").user("go").todos(*todos)
    for n in range(61):
        old.shell(f"make part{n}", "ok")
    assert states(old, tmp_path)["In progress"] == "write the parser"
    for n in range(3):
        old.user(f"now something else, number {n}")

    assert states(fresh, tmp_path)["Pending in its todo list"] == "write the docs"
    assert "In progress" not in states(old, tmp_path)
    assert states(old, tmp_path)["Pending in its todo list, 64 entries ago"] == "write the docs"


def test_a_line_of_the_goals_code_names_its_file(tmp_path: Path) -> None:
    """The definition is told rather than a use, by a name of the goal or one made of its words."""
    code = "x = load_config()\ndef load_config(path):\n    return None\nclass EventListeners: ...\n"
    builder = ThreadBuilder("claude").user("go").read("src/conf.py", code)

    assert lines(builder, tmp_path, "load_config forgets the event listeners") == [
        "`load_config` in `conf.py`: `def load_config(path):`",
        "`EventListeners` in `conf.py`: `class EventListeners: ...`",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "from app import load_config",
        "load_config(",
        "load_config:",
        "uses `load_config` here",
        "import load_config\nx = load_config_once_and_then_once_again()",
        f"x = load_config() {'#' * 300}",
    ],
)
def test_a_line_that_says_nothing_of_a_name_is_not_told(code: str, tmp_path: Path) -> None:
    """Imports, opened brackets, keys, prose with backticks, longer names and long lines are none."""
    builder = ThreadBuilder("claude").user("go").read("src/conf.py", code)

    assert lines(builder, tmp_path, "load_config forgets") == []


def test_only_code_that_was_read_or_written_is_quoted(tmp_path: Path) -> None:
    """What a command printed is no code, what `sed -n` shows or a read that failed differ."""
    shown = ThreadBuilder("claude").user("go").shell("sed -n 1,9p a.py", "y = load_config()")
    other = ThreadBuilder("claude").user("go").shell("make", "y = load_config()")
    red = ThreadBuilder("claude").user("go").shell("cat a.py", "y = load_config()", 1)

    assert lines(shown, tmp_path, "load_config") == ["`load_config`: `y = load_config()`"]
    assert lines(other, tmp_path, "load_config") == []
    assert lines(red, tmp_path, "load_config") == []


def test_what_the_goal_quotes_is_found_where_it_was_written_last(tmp_path: Path) -> None:
    """A message that the goal quotes is told with the file that holds it and the newest entry that wrote it."""
    builder = (
        ThreadBuilder("claude", cwd="/p")
        .user("warn about two sessions")
        .edit("/p/src/warn.py", "pass", 'print("Both sessions will capture checkpoints")')
        .edit("/p/src/other.py", "1", "2")
        .assistant("Done.")
    )
    goal = 'change "Both sessions will capture checkpoints" to something shorter, and keep "nothing of this was ever written"'

    (item,) = state.goal_quotes(thread_of(builder, tmp_path), goal)

    assert item.text == "`Both sessions will capture checkpoints` stands in `src/warn.py`"
    assert item.refs == (2,)
    assert not list(state.goal_quotes(thread_of(builder, tmp_path), "make the warning shorter"))
