"""Turns: what belongs to which message of the user, and how each ended."""

from pathlib import Path

from making import thread_of

from tasuki.draft.text.entries import ThreadTurn, split_turns
from tasuki.model import Entry, ToolCall
from tasuki_testing import ThreadBuilder


def user(ref: int, text: str, origin: str = "typed") -> Entry:
    """A message of the user."""
    return Entry(ref=ref, kind="user", text=text, origin=origin)  # type: ignore[arg-type]


def agent(ref: int, text: str) -> Entry:
    """A message of the agent."""
    return Entry(ref=ref, kind="assistant", text=text)


def call(ref: int) -> Entry:
    """A tool call."""
    return Entry(ref=ref, kind="tool", tool=ToolCall(id="1", name="Bash", kind="shell"))


def shape(turns: list[ThreadTurn]) -> list[tuple[int, list[int]]]:
    """The refs of each turn: its message, 0 for none, and what followed."""
    return [(t.prompt.ref if t.prompt else 0, [e.ref for e in t.entries]) for t in turns]


def test_each_message_of_the_user_begins_a_turn() -> None:
    """What comes before the first one is a turn of its own; none is empty, and no entry is lost."""
    entries = [agent(1, "Hello"), user(2, "one"), call(3), agent(4, "Done."), user(5, "two"), user(6, "three")]  # fmt: skip

    assert shape(split_turns(entries)) == [(0, [1]), (2, [3, 4]), (5, []), (6, [])]
    assert split_turns([]) == []


def test_what_the_harness_put_into_a_message_begins_no_turn(tmp_path: Path) -> None:
    """A summary, and a brief of an earlier handoff with nothing behind it, belong to the turn they fall into."""
    builder = ThreadBuilder("claude").handoff("- Earlier work.").user("Fix it").assistant("I look.")
    thread = thread_of(builder.compaction("We fix it.").assistant("Fixed."), tmp_path)
    begun = [t.prompt.text for t in split_turns(thread.entries) if t.prompt]

    assert begun == ["Fix it"]
    assert sum(len(t.entries) + bool(t.prompt) for t in split_turns(thread.entries)) == len(thread.entries)  # fmt: skip


def test_a_turn_is_concluded_by_the_agents_last_words() -> None:
    """An empty message is none; a turn has ended where nothing came behind the words."""
    ended = ThreadTurn(user(1, "go"), (agent(2, "I look."), call(3), agent(4, "Done.")))
    under_way = ThreadTurn(user(1, "go"), (agent(2, "I look."), agent(3, " \n"), call(4)))
    silent = ThreadTurn(user(1, "go"), (call(2),))

    assert [e.ref for e in ended.messages] == [2, 4]
    assert [t.conclusion.ref if t.conclusion else 0 for t in (ended, under_way, silent)] == [
        4,
        2,
        0,
    ]
    assert [t.is_ended for t in (ended, under_way, silent, ThreadTurn(user(1, "go"), ()))] == [
        True,
        False,
        False,
        False,
    ]
