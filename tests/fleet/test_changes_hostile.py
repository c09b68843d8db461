"""Repositories that would run a program, name what is no text, hold a secret, or are broken."""

import os
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from work_trees import ENVIRONMENT, WorkFolder, by_path, diff_of

from tasuki.fleet.changes import diffs, work_tree
from tasuki.fleet.changes.work import build_start_values, read_changes, summarize_work
from tasuki.fleet.changes.work_tree import WorkTree

SECRET = "sk-ant-api03-" + "a1B2" * 20
KEY = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"


@pytest.fixture
def work_folder(tmp_path: Path) -> WorkFolder:
    """A repository at whose first commit the agent began."""
    return WorkFolder(tmp_path / "repository")


def trap(folder: Path, name: str) -> str:
    """A program that leaves a mark when it is run; its path."""
    path = folder / f"{name}.sh"
    path.write_text(f"#!/bin/sh\necho ran >> {shlex.quote(str(folder))}/ran-{name}\ncat\n")
    path.chmod(0o755)
    return str(path)


def marks(folder: Path) -> list[str]:
    """The programs that ran."""
    return sorted(path.name for path in folder.glob("ran-*"))


SETTINGS = {
    "diff.own.command": "diff-driver", "diff.own.textconv": "textconv", "filter.own.clean": "clean",
    "filter.own.smudge": "smudge", "filter.own.process": "process", "core.fsmonitor": "fsmonitor",
    "diff.external": "external", "core.pager": "pager", "pager.diff": "pager-diff",
    "pager.log": "pager-log", "gpg.program": "gpg", "core.sshCommand": "ssh",
    "core.editor": "editor", "interactive.diffFilter": "interactive",
}  # fmt: skip


def test_no_program_of_the_repository_runs(work_folder: WorkFolder, tmp_path: Path) -> None:
    """Drivers, conversions, filters, monitors, pagers, signature checks and hooks are not run."""
    for setting, name in SETTINGS.items():
        work_folder.git("config", setting, trap(tmp_path, name))
    work_folder.git("config", "log.showSignature", "true")
    work_folder.git("config", "filter.own.required", "true")
    work_folder.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "post-checkout", "reference-transaction"):
        (tmp_path / "hooks" / hook).symlink_to(trap(tmp_path, f"hook-{hook}"))
    work_folder.write(".gitattributes", "* diff=own filter=own\n")
    work_folder.write("app.py", "1\n")
    signed = work_folder.git("cat-file", "commit", "HEAD").replace(
        "committer", "gpgsig -----BEGIN PGP SIGNATURE-----\ncommitter", 1
    )
    made = subprocess.run(
        ["git", "-C", str(work_folder.folder), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        input=f"{signed}\n", capture_output=True, text=True, check=True, env=ENVIRONMENT,
    ).stdout.strip()  # fmt: skip
    before = marks(tmp_path)
    changes = work_folder.read(begun_commit=made)
    changes = work_folder.read()
    summary = summarize_work(work_folder.agent())

    assert [] == before
    assert [] == marks(tmp_path)
    assert "" == changes.problem
    assert "+1" in diff_of(changes, "app.py").lines
    assert 2 == summary.files


def test_the_trap_would_have_run(work_folder: WorkFolder, tmp_path: Path) -> None:
    """The programs of that test do run where git is asked in the usual way."""
    for setting in ("diff.own.textconv", "core.fsmonitor", "filter.own.clean"):
        work_folder.git("config", setting, trap(tmp_path, SETTINGS[setting]))
    work_folder.write(".gitattributes", "* diff=own filter=own\n")
    work_folder.write("app.py", "1\n")
    work_folder.git("diff")

    assert ["ran-clean", "ran-fsmonitor", "ran-textconv"] == marks(tmp_path)


def test_the_environment_is_not_believed(
    work_folder: WorkFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of git that the server was started with point to nothing else."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", trap(tmp_path, "variable"))
    monkeypatch.setenv("GIT_PAGER", trap(tmp_path, "pager-variable"))
    work_folder_agent = work_folder.agent()
    work_folder.write("app.py", "1\n")
    changes = read_changes(work_folder_agent, diff="all")

    assert ["app.py"] == list(by_path(changes))
    assert [] == marks(tmp_path)


def test_nothing_is_written(work_folder: WorkFolder) -> None:
    """The index stays as it is, also where its times are old, and while another git holds its lock."""
    os.utime(work_folder.folder / "app.py", (1, 1))
    index, lock = (work_folder.folder / ".git" / name for name in ("index", "index.lock"))
    lock.write_text("")
    before, entries = index.read_bytes(), sorted(os.listdir(work_folder.folder / ".git"))
    work_folder.write("notes.md", "Other\n")
    changes = work_folder.read()

    assert ["notes.md"] == list(by_path(changes))
    assert before == index.read_bytes()
    assert entries == sorted(os.listdir(work_folder.folder / ".git"))


def test_names_of_all_kinds(work_folder: WorkFolder) -> None:
    """Names with line breaks, quotes, tabs, escapes and bytes that are no text are each one line."""
    names = [b"a\nb.txt", b'quo"te.txt', b"tab\there", b"esc\x1b[31mred", b"\xff\xfe.bin", "größe ä.txt".encode(),
             b" diff --git a b", b"-n", b":(top)x"]  # fmt: skip
    for name in names:
        path = os.path.join(os.fsencode(work_folder.folder), name)
        with open(path, "wb") as file:
            file.write(b"old\n")
    begun = work_folder.commit("Odd names")
    for name in names:
        with open(os.path.join(os.fsencode(work_folder.folder), name), "ab") as file:
            file.write(b"new\n")
    with open(os.path.join(os.fsencode(work_folder.folder), b"loose\n\x1b]0;t\x07"), "wb") as file:
        file.write(b"x\n")
    changes = work_folder.read(begun_commit=begun)
    shown = [file.path for file in changes.files]

    assert len(names) + 1 == len(shown) == len({file.key for file in changes.files})
    assert all(path.isprintable() for path in shown)
    assert {"a\\nb.txt", "größe ä.txt", "escred", "tab\\there"} < set(shown)
    for file, diff in zip(changes.files, changes.diffs, strict=True):
        expected = "+x" if file.state == "untracked" else "+new"
        assert expected == diff.lines[-1], file.path
        alone = work_folder.read(begun_commit=begun, diff=file.key).diffs
        assert expected == alone[0].lines[-1]


def test_a_branch_and_a_folder_that_are_no_text(tmp_path: Path) -> None:
    """Names with bytes that are no text, and with signs that nobody sees, can be kept and sent."""
    made = WorkFolder(tmp_path / os.fsdecode(b"fold\xffer"))
    made.git("checkout", "-q", "-b", os.fsdecode(b"b\xfe") + "\u202e")
    start = build_start_values(str(made.folder))
    said = msgspec.json.encode([made.read(), summarize_work(made.agent()), start])

    assert ("b\ufffd", made.begun) == (start["begun_branch"], start["begun_commit"])
    assert "b\ufffd" in said.decode()


def test_a_long_line_is_cut_after_its_secrets(work_folder: WorkFolder) -> None:
    """A line without an end is cut, and no half of a secret stays at its edge."""
    start = diffs.MOST_LINE_CHARACTERS - 20
    work_folder.write("app.min.js", f"{'x ' * (start // 2)}{KEY} {'y' * 5000}\n")
    line = work_folder.read().diffs[0].lines[1]

    assert line.endswith("…")
    assert diffs.MOST_LINE_CHARACTERS + 1 == len(line)
    assert KEY[:8] not in line


def test_links_are_not_followed(work_folder: WorkFolder, tmp_path: Path) -> None:
    """Of a symbolic link only where it leads is shown; a pipe and a socket are not waited for."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.txt").write_text("hidden words\n")
    (work_folder.folder / "link.txt").symlink_to(outside / "private.txt")
    (work_folder.folder / "folder").symlink_to(outside)
    os.mkfifo(work_folder.folder / "pipe")
    (work_folder.folder / "app.py").unlink()
    (work_folder.folder / "app.py").symlink_to(outside / "private.txt")
    changes = work_folder.read()
    text = "\n".join(line for diff in changes.diffs for line in diff.lines)

    assert "" == changes.problem
    assert "hidden words" not in text
    assert f"+{outside}/private.txt" in diff_of(changes, "link.txt").lines
    assert {"app.py", "folder", "link.txt"} <= set(by_path(changes))


def test_secrets_are_replaced(work_folder: WorkFolder) -> None:
    """In differences, untracked files, subjects, names of branches and files no secret is shown."""
    work_folder.git("checkout", "-q", "-b", f"fix-{KEY}")
    work_folder.write("app.py", f"one\ntwo\nkey = '{SECRET}'\n")
    work_folder.commit(f"Use {KEY} for the upload")
    work_folder.write(".env", f"GITHUB_TOKEN={KEY}\nDATABASE_PASSWORD=hunter2hunter2\n")
    work_folder.write(f"{KEY}.txt", "x\n")
    lines = "".join(f"{n:064d}\n" for n in range(30))
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}-----END RSA PRIVATE KEY-----\n"
    work_folder.write("long.pem", "".join(f"{n}\n" for n in range(390)) + pem)
    changes = work_folder.read()
    summary = summarize_work(work_folder.agent())
    everything = f"{changes} {summary}"

    assert SECRET not in everything
    assert KEY not in everything
    assert "hunter2" not in everything
    assert "0" * 60 not in everything
    assert "[REDACTED:" in changes.commits[0].subject
    assert any("[REDACTED:" in line for line in diff_of(changes, ".env").lines)


def test_what_is_no_work_tree_is_a_sentence(tmp_path: Path) -> None:
    """No repository, a bare one, a folder that is gone, and a file in its place."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("")
    bare = WorkFolder(tmp_path / "bare")
    bare.git("config", "core.bare", "true")
    problems = {
        name: read_changes(bare.agent(cwd=str(tmp_path / name)), diff="all").problem
        for name in ("plain", "bare", "gone", "file")
    }

    assert "is in no git repository" in problems["plain"]
    assert "without a work tree" in problems["bare"]
    assert "is not there" in problems["gone"]
    assert "is not there" in problems["file"]
    assert problems["plain"] == summarize_work(bare.agent(cwd=str(tmp_path / "plain"))).problem


@pytest.mark.parametrize("broken", ["HEAD", "index", "config", "objects"])
def test_a_broken_repository_is_a_sentence(work_folder: WorkFolder, broken: str) -> None:
    """A truncated or senseless part of a repository breaks nothing here."""
    work_folder.write("app.py", "1\n")
    if broken == "objects":
        for path in (work_folder.folder / ".git" / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                path.write_bytes(b"nonsense")
    else:
        (work_folder.folder / ".git" / broken).write_bytes(b"[nonsense\0\xff")
    changes = work_folder.read()

    assert "git" in changes.problem
    assert changes.problem
    assert () == changes.files
    assert summarize_work(work_folder.agent()).problem


def test_a_work_tree_elsewhere_is_not_shown(work_folder: WorkFolder, tmp_path: Path) -> None:
    """A repository whose settings call another folder its work tree shows nothing of that."""
    outside = tmp_path / "private"
    outside.mkdir()
    (outside / "letters.txt").write_text("hidden words\n")
    work_folder.git("config", "core.worktree", str(outside))
    changes = work_folder.read()

    assert "hidden words" not in str(changes)
    assert "no work tree" in changes.problem


def test_slow_git_ends(
    work_folder: WorkFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that does not end is ended, with a sentence."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(WorkTree.__init__, "__defaults__", (0.3,))
    changes = read_changes(work_folder.agent(), diff="all")

    assert "took longer" in changes.problem
    assert 5.0 == work_tree.READ_SECONDS


def test_without_git(work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git there is a sentence."""
    monkeypatch.setenv("PATH", "/nowhere")
    problem = read_changes(work_folder.agent()).problem

    assert "git could not be run" in problem
