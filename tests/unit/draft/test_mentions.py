"""Mentions: which file a text means, and where it stands."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from making import derived

from tasuki.draft.facts.mentions import add_mentions, list_mentions
from tasuki.model import Entry, FileFact, Named, Thread, ToolCall
from tasuki_testing import ThreadBuilder

CWD = "/home/dev/proj"


def find_mentions(entries: Sequence[Entry], used: Sequence[str], cwd: str) -> dict[str, Named]:
    """The files that entries name, in a thread that used some."""
    files = [FileFact(path=path) for path in used]
    thread = Thread("claude", "", "", cwd=cwd, entries=tuple(entries))
    found = add_mentions(files, list_mentions(thread, files, []), cwd)
    return {f.path: f.named for group in found for f in group if f.named != Named()}


def said(ref: int, text: str) -> Entry:
    """A text of the agent."""
    return Entry(ref=ref, kind="assistant", text=text)


def test_what_was_said_given_and_printed_is_told_apart() -> None:
    """Each place in which a file is named has the refs of its own, oldest first."""
    call = ToolCall(id="1", name="Grep", kind="search", command="wc src/a.py", output="src/b.py")
    found = find_mentions(
        [
            said(1, "I look at src/a.py, then at src/b.py."),
            Entry(ref=2, kind="user", text="src/a.py is slow"),
            Entry(ref=3, kind="tool", tool=call),
            said(4, "src/a.py it is"),
        ],
        (),
        CWD,
    )

    assert found == {
        "src/a.py": Named(assistant=(1, 4), user=(2,), input=(3,)),
        "src/b.py": Named(assistant=(1,), output=(3,)),
    }


def test_the_end_of_a_path_counts_for_the_one_file_it_can_mean() -> None:
    """A bare name means the file that ends so; a name that two files end with means neither."""
    known = ("src/app/queue.py", "src/app/store.py", "src/old/store.py")
    found = find_mentions(
        [said(1, "queue.py calls app/queue.py, and store.py is full")], known, CWD
    )

    assert found == {"src/app/queue.py": Named(assistant=(1,) * 2)}


def test_a_name_without_a_folder_that_no_file_has_is_no_file() -> None:
    """`os.env` or a file that nothing else names is not taken for one of the project."""
    assert find_mentions([said(1, "see notes.md and a/b and v1/users")], (), CWD) == {}


def test_the_threads_folder_and_the_letters_of_a_diff_are_no_part_of_a_path() -> None:
    """`/home/dev/proj/x`, `./x`, `a/x` and `b/x` are all the file `x`."""
    texts = (f"{CWD}/src/x.py", "./src/x.py", "--- a/src/x.py", "+++ b/src/x.py")
    found = find_mentions([said(n, text) for n, text in enumerate(texts, 1)], ("src/x.py",), CWD)

    assert found == {"src/x.py": Named(assistant=(1, 2, 3, 4))}


def test_an_earlier_handoff_names_no_file() -> None:
    """What a brief lists was named by the one before: it does not count as asked for."""
    brief = Entry(ref=1, kind="user", text="- src/a.py", origin="handoff")

    assert find_mentions([brief], ("src/a.py",), CWD) == {}


def test_files_that_are_only_named_are_kept_apart_from_those_touched(tmp_path: Path) -> None:
    """A file that a search printed is spoken of; it is not among the files of the thread."""
    facts = derived(
        ThreadBuilder("claude")
        .user("where are the limits?")
        .shell("rg -l limit", "src/limits.py\nsrc/app.py")
        .read("src/app.py", "limit = 3"),
        tmp_path,
    ).facts

    assert [f.path for f in facts.files] == ["src/app.py"]
    assert [(f.path, f.named.output) for f in facts.spoken_of] == [("src/limits.py", (2,))]
    assert facts.spoken_of[0].shown_in == (2,)


@pytest.mark.parametrize(
    ("command", "printed", "is_file"),
    [
        ("rg -n limit", "src/limits.py:3:limit = 3", True),
        ("git status --short", " M src/limits.py", True),
        ("git diff --stat", " src/limits.py | 3 ++-", True),
        ("find . -name '*.py'", "./src/limits.py", True),
        ("cd ../other && rg -l limit", "src/limits.py", False),
        ("git -C ../other status -s", "?? src/limits.py", False),
        ("node run.js", "[7:ERROR:src/limits.py(83)] no cert", False),
        ("rg -n limit", "docs/guide.txt:3: see src/limits.py", False),
        ("git remote -v", "origin https://host.io/x/src/limits.py (fetch)", False),
    ],
)  # fmt: skip
def test_an_untouched_file_is_one_that_a_listing_of_the_folder_printed(
    command: str, printed: str, is_file: bool, tmp_path: Path
) -> None:
    """What another program, folder or document names is not taken for a file of the project."""
    thread = (
        ThreadBuilder("claude").user("go").shell(command, printed).assistant("So src/limits.py.")
    )
    found = [f.path for f in derived(thread, tmp_path).facts.spoken_of]

    assert ("src/limits.py" in found) == is_file


def test_what_a_short_message_of_the_user_names_counts_without_the_particle_at_its_end() -> None:
    """`spec/guide.md도` is the file `spec/guide.md`; a long message may be pasted from anywhere."""
    short = Entry(ref=1, kind="user", text="spec/guide.md도 확인해서 수정해줘")
    long = Entry(ref=2, kind="user", text="other/report.md says " + "so " * 300)

    assert list(find_mentions([short, long], (), CWD)) == ["spec/guide.md"]
