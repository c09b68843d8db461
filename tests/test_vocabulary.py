"""Names in the files of a thread that the work goes on with."""

from pathlib import Path

from making import thread_of

from tasuki.draft.facts import derive
from tasuki.draft.vocabulary import Vocabulary, names
from tasuki.model import FileFact
from tasuki.testing import ThreadBuilder


def of(builder: ThreadBuilder, folder: Path, goal: str = "") -> tuple[Vocabulary, list[FileFact]]:
    """The vocabulary of a built thread, and its files by path."""
    thread = thread_of(builder, folder)
    files = derive(thread, None, goal).facts.files
    return Vocabulary(thread, goal), sorted(files, key=lambda f: f.path)


def test_only_names_with_case_or_an_underscore_inside_are_told() -> None:
    """Plain words and calls of modules that every program uses tell nothing of this one."""
    text = "return os.path_join(parse_line(theQueue), MAX_SIZE, value, Parser, json.toString)"

    assert list(names(text)) == ["parse_line", "theQueue", "MAX_SIZE"]


def test_a_name_counts_more_when_it_was_given_lately_or_the_goal_speaks_of_it(
    tmp_path: Path,
) -> None:
    """Of three names in edits, that of the goal is worth most, then that of the newest edit."""
    builder = ThreadBuilder("claude").user("go").edit("a.py", "x", "old_name\ngoal_name")
    for n in range(60):
        builder.shell(f"echo {n}", "ok")
    vocabulary, _ = of(builder.edit("b.py", "x", "new_name"), tmp_path, "rename goal_name")
    worth = {n: vocabulary.worth(n) for n in ("goal_name", "new_name", "old_name", "never_said")}

    assert sorted(worth, key=lambda n: -worth[n]) == [
        "goal_name", "new_name", "old_name", "never_said",
    ]  # fmt: skip


def test_a_name_is_told_once_with_the_first_file_that_holds_it(tmp_path: Path) -> None:
    """What stands in two files is not told twice, nor a name beside a longer one that ends so."""
    vocabulary, files = of(
        ThreadBuilder("claude")
        .user("go")
        .edit("a.py", "x", "shared_name\nserver.retryCount\nretryCount")
        .edit("b.py", "x", "shared_name\nown_name"),
        tmp_path,
    )
    first, second = vocabulary.of_files(files, 20, 10)

    assert "shared_name" in first
    assert second == ["own_name"]
    assert len({"server.retryCount", "retryCount"} & set(first)) == 1


def test_the_names_of_all_files_and_of_one_are_limited(tmp_path: Path) -> None:
    """`total` bounds them over all files, `each` beside one."""
    text = "\n".join(f"name_{n}x" for n in range(10))
    vocabulary, files = of(
        ThreadBuilder("claude").user("go").edit("a.py", "x", text).edit("b.py", "x", "other_one"),
        tmp_path,
    )

    assert [len(found) for found in vocabulary.of_files(files, 20, 4)] == [4, 1]
    assert sum(map(len, vocabulary.of_files(files, 3, 4))) == 3


def test_an_entry_whose_names_were_shown_already_is_not_cited_again(tmp_path: Path) -> None:
    """Of two reads with the same names one is cited; one with many others is cited too."""
    same = "\n".join(f"first_{n}x" for n in range(30))
    fresh = "\n".join(f"second_{n}x" for n in range(30))
    vocabulary, files = of(
        ThreadBuilder("claude").user("go").read("a.py", same).read("a.py", same)
        .read("a.py", fresh),
        tmp_path,
    )  # fmt: skip
    covered: set[str] = set()

    assert vocabulary.entries_of(files[0], 5, covered) == (3, 4)
    assert {"first_3x", "second_3x"} <= covered
    assert vocabulary.entries_of(files[0], 5, covered) == (4,)
