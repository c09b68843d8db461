"""Files that a command removed or moved: which are a change that no commit holds."""

import subprocess
from pathlib import Path

import pytest
from making import derived, thread_of

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.git import GitProbe
from tasuki.model import Entry, FileChange, Thread, ToolCall, ToolStatus
from tasuki_testing import ThreadBuilder

GONE = "On branch main\nChanges not staged for commit:\n\tdeleted:    src/a.py\n"
REMOVERS = [
    "rm src/a.py", "rm -f -- src/a.py", "cd src && rm a.py", "cd ~/proj/src; unlink a.py", "make clean\nrm src/a.py", "rm 'src/a.py' src/other.txt",
    "Remove-Item -Force src\\a.py", "Remove-Item -Path src/a.py, src/b.txt", "del src\\a.py", "rm src/a.py && git status",
]  # fmt: skip


def start(harness: str = "claude") -> ThreadBuilder:
    """A thread in a repository."""
    return ThreadBuilder(harness).user("go").shell("git status", "On branch main")


def left(builder: ThreadBuilder, folder: Path) -> set[str]:
    """The files that are not committed."""
    return set(derived(builder, folder).facts.uncommitted)


@pytest.mark.parametrize("command", REMOVERS)
def test_a_removed_file_that_git_knows_is_not_committed(command: str, tmp_path: Path) -> None:
    """It was read, git lists it as deleted, or a commit of the thread holds it; else nobody knows."""
    removed = start().shell(command, "")
    read = start().read("src/a.py", "x").shell(command, "")
    listed = removed.shell("git status", GONE)
    made = start().create("src/a.py", "x").shell("git commit -qam one", "").shell(command, "")
    tried = start().create("src/a.py", "x").shell(command, "")

    assert "src/a.py" not in left(start().shell(command, ""), tmp_path)
    for builder in (read, listed, made):
        assert "src/a.py" in left(builder, tmp_path)
    assert "src/a.py" not in left(tried, tmp_path)
    assert "src/a.py" not in left(read.shell("git commit -am one", "[main 1111111] one"), tmp_path)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git rm -r src", {"src/a.py"}),
        ("git rm 'src/*.py'", {"src/a.py"}),
        ("git rm -r lib", set()),
        ("git rm src/a.py && git commit -m one", set()),
        ("git rm -r src; git restore --staged --worktree src/a.py", set()),
        ("git rm src/a.py", {"src/a.py"}),
        ("git rm -q src/a.py; git status --short", {"src/a.py"}),
        ("git mv src/a.py src/b.py", {"src/a.py", "src/b.py"}),
        ("git mv src/a.py .", {"src/a.py", "a.py"}),
        ("git rm --cached src/a.py", set()),
        ("git rm -n src/a.py", set()),
        ('for f in *.py; do git rm "$f"; done', set()),
        ("git ls-files src/a.py || git rm src/a.py", set()),
    ],
)
def test_what_git_removed_or_moved_was_tracked(
    command: str, expected: set[str], tmp_path: Path
) -> None:
    """Git does so with no other file, though the thread never read it."""
    output = "rm 'src/a.py'" + "\n[main 1111111] one" * ("commit" in command)
    assert left(start().shell(command, output), tmp_path) == expected


@pytest.mark.parametrize(
    "command", ["mv src/a.py src/b.py lib/", "mv src/a.py lib/", "cd src; mv a.py ../lib/"]
)
def test_a_file_that_is_moved_into_a_folder_keeps_its_name(command: str, tmp_path: Path) -> None:
    """What was done to it counts at its new place."""
    builder = start().read("src/a.py", "x").edit("src/a.py", "1", "2").shell(command, "")

    assert left(builder, tmp_path) == {"src/a.py", "lib/a.py"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cp ../other/a.py src/", {"src/a.py"}),
        ("cp src/a.py src/b.py", {"src/b.py"}),
        ("Copy-Item lib\\a.py src\\b.py", {"src/b.py"}),
        ("cp src/a.py src/b.py && rm src/b.py", set()),
        ("cp src/a.py /tmp/a.py; pytest; cp /tmp/a.py src/a.py", set()),
        ("cp -r src other", set()),
        ("cp src/a.py $OUT/", set()),
    ],
)
def test_a_copy_is_a_change(command: str, expected: set[str], tmp_path: Path) -> None:
    """Also one into a folder; not what was put back from a copy."""
    assert left(start().shell(command, ""), tmp_path) == expected


@pytest.mark.parametrize(
    "command",
    [
        'rm -rf "$HOME/Library/Application Support/shop/a.json"', 'cat "$HOME/Library/Application Support/shop/a.json"', "cd $TMP && rm -f Library/a.json", 'cd "$WORK" && cat Library/a.json',
        "cp a.json $HOME/Library/a.json", 'mv "$HOME/Library/Mail/a.json" src/', "echo x > $HOME/Library/a.json", "(cd /srv/other && rm Library/a.json)\nrm Library/b.json",
        "git rm $HOME/Library/a.json", 'git checkout -- "$X/Library/a.json"',
    ],
)  # fmt: skip
def test_a_path_that_only_the_shell_knows_is_no_file(command: str, tmp_path: Path) -> None:
    """Neither a piece of it, nor what is named from such a folder."""
    facts = derived(start().shell(command, "{}"), tmp_path).facts

    named = [f.path for f in (*facts.files, *facts.spoken_of)]
    assert not [path for path in named if "Library" in path or "Support" in path]


@pytest.mark.parametrize("status", ["aborted", "running", "refused", "ok"])
def test_a_command_that_was_not_done_removes_nothing(status: ToolStatus) -> None:
    """The user stopped or refused it, or it has no result."""
    made = FileChange(path="src/a.py", kind="create", old="", new="x")
    calls = [
        ToolCall("a", "Write", "edit", changes=(made,), status="ok"),
        ToolCall("b", "Bash", "shell", command="rm -rf src", status=status),
    ]
    entries = tuple(Entry(ref=n, kind="tool", tool=call) for n, call in enumerate(calls, 1))
    thread = Thread(harness="claude", id="a", path="/nowhere", cwd="/home/dev", entries=entries)
    (file,) = derive_facts(thread).facts.files

    assert file.deleted is (status == "ok")


def test_git_lists_a_removed_file_itself(tmp_path: Path) -> None:
    """Where the folder is here: a new folder around it does not make it a change."""
    folder = tmp_path / "proj"
    folder.mkdir()
    for words in (
        ("git", "init", "-q"),
        ("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"),
    ):  # fmt: skip
        subprocess.run(words, cwd=folder, check=True)
    (folder / "new").mkdir()
    (folder / "new/b.py").write_text("x")
    builder = ThreadBuilder("claude", cwd=str(folder)).user("go").create("new/a.py", "x")
    builder = builder.create("new/b.py", "x").shell("rm new/a.py", "")
    facts = derive_facts(thread_of(builder, tmp_path), GitProbe(str(folder)).read_revision()).facts

    assert facts.uncommitted == ("new/b.py",)


WRITERS = (
    "printf 'a\\n' > src/a.py", "echo a >> src/a.py", "cat > src/a.py <<'E'\nx > y\nE", "cat <<E > src/a.py\nx\nE",
    "echo a | tee -a src/a.py", "cat <<'E' | tee src/a.py > /dev/null\nx\nE", "cd src && printf a >| 'a.py' && cat a.py",
    "Set-Content -Path src/a.py -Value 'x'", "echo x | Out-File -Encoding utf8 -FilePath src/a.py", "Add-Content -NoNewline src/a.py x",
)  # fmt: skip


@pytest.mark.parametrize("command", WRITERS)
def test_a_file_into_which_a_command_writes_a_text_is_written_and_not_read(
    command: str, tmp_path: Path
) -> None:
    """Also where the line then fails, or prints it."""
    (file,) = derived(ThreadBuilder("claude").user("go").shell(command, ""), tmp_path).facts.files
    assert (file.path, len(file.edits), file.reads, file.was_there) == ("src/a.py", 1, (), None)
    failed = ThreadBuilder("claude").user("go").shell(f"{command}\nmake", "Error 2", 2)
    (file,) = derived(failed, tmp_path).facts.files
    assert len(file.edits) == 1


@pytest.mark.parametrize(
    "command",
    [
        "echo 'a > src/a.py'", "echo a > /tmp/a.py", "echo $! > server.pid", "printf a > \"$FILE\"", "cat src/a.py > /dev/null 2>&1",
        "pytest > out.py", "if true; then echo a > a.py; fi", "false || echo a > a.py", "cat > /dev/null <<'E'\necho > a.py\nE",
    ],
)  # fmt: skip
def test_what_is_no_file_of_the_work_or_may_not_be_written_counts_as_none(
    command: str, tmp_path: Path
) -> None:
    """A text that only looks like it, scratch files, a variable, and what may not run."""
    found = derived(ThreadBuilder("claude").user("go").shell(command, "x"), tmp_path).facts.files
    assert not any(file.edits for file in found)


def test_a_written_file_that_git_lists_no_more_is_committed_by_somebody(tmp_path: Path) -> None:
    """Nobody edited it with a tool, so git's newest list decides; without a list it is told."""
    line = "git branch --show-current && git status --porcelain && date +%Y"
    steps = [
        ("printf 'a\n' > plan.md", ""),
        (line, "main\n?? plan.md\n?? other.md\n2026"),
        (line, "main\n?? other.md\n2026"),
    ]
    told = []
    for number in range(1, len(steps) + 1):
        builder = start()
        for command, output in steps[:number]:
            builder.shell(command, output)
        told.append("plan.md" in left(builder, tmp_path))

    assert told == [True, True, False]
