"""Real git repositories for tests of work that moves: a bare origin with two clones of it."""

import os
import stat
import subprocess
from pathlib import Path

from msgspec import Struct

from tasuki.fleet.handoff.bundles.packs import PackedWork
from tasuki.fleet.handoff.bundles.places import WorkPlace, plan_place
from tasuki.fleet.handoff.bundles.repositories import describe_repository

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@b.test", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str, input: bytes = b"") -> str:
    """Run git as somebody; its output, with one line break less."""
    done = subprocess.run(
        ["git", *IDENTITY, "-C", str(folder), *arguments],
        capture_output=True,
        input=input,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return os.fsdecode(done.stdout).removesuffix("\n")


class Pair(Struct, frozen=True):
    """An origin, and clones of it that stand for two hosts."""

    origin: Path
    source: Path
    target: Path

    def plan(self, packed: PackedWork, slug: str = "dev-1", wanted: str = "") -> WorkPlace:
        """Where the source's work would land."""
        origin = describe_repository(str(self.source)).origin
        cwd = str(self.target)
        return plan_place(cwd, origin, packed.branch, packed.commit, slug, wanted)


def make_pair(folder: Path, hashes: str = "sha1") -> Pair:
    """An origin with a few files on main, cloned twice."""
    origin, source, target = folder / "origin.git", folder / "source", folder / "target"
    subprocess.run(
        ["git", "init", "-q", "--bare", "-b", "main", f"--object-format={hashes}", str(origin)],
        check=True,
    )
    source.mkdir()
    git(source, "init", "-q", "-b", "main", f"--object-format={hashes}")
    git(source, "remote", "add", "origin", str(origin))
    (source / "src").mkdir()
    (source / "src" / "upload.py").write_text("LIMIT = 1\n")
    (source / "src" / "client.py").write_text("import upload\n")
    (source / "README").write_text("read me\n")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / ".gitignore").write_text("*.log\nbuild/\n")
    (source / "run.sh").chmod(0o755)
    os.symlink("README", source / "link")
    commit_all(source, "start")
    git(source, "push", "-q", "-u", "origin", "main")
    subprocess.run(["git", "clone", "-q", str(origin), str(target)], check=True)
    return Pair(origin, source, target)


def commit_all(folder: Path, message: str) -> str:
    """Commit everything; the commit's hash."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def change_files(folder: Path) -> None:
    """Leave one change of each kind: staged, unstaged, both, deleted, new, renamed, a mode, a link."""
    (folder / "src" / "upload.py").write_text("LIMIT = 2\n")
    git(folder, "add", "src/upload.py")
    (folder / "src" / "upload.py").write_text("LIMIT = 3\n")
    git(folder, "mv", "src/client.py", "src/sender.py")
    (folder / "run.sh").chmod(0o644)
    (folder / "README").unlink()
    (folder / "link").unlink()
    os.symlink("src/upload.py", folder / "link")
    (folder / "new").mkdir()
    (folder / "new" / "notes.txt").write_text("mine\n")
    (folder / "new" / "staged.txt").write_text("staged\n")
    git(folder, "add", "new/staged.txt")
    (folder / "noise.log").write_text("ignored\n")


def read_state(folder: Path) -> dict[str, object]:
    """What a move keeps: HEAD, what git calls changed, the index, bytes and modes of all files but ignored ones."""
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {
        "head": git(folder, "rev-parse", "HEAD"),
        "status": git(folder, "status", "--porcelain=v2", "-z", "--untracked-files=all"),
        "index": git(folder, "ls-files", "-s", "-z"),
        "files": {name: read_file(folder / name) for name in listed.split("\0") if name},
    }


def read_file(path: Path) -> tuple[str, bytes]:
    """Kind of a file and its content."""
    if path.is_symlink():
        return "link", os.fsencode(os.readlink(path))
    if not os.path.lexists(path):
        return "none", b""
    if path.is_dir():
        return "folder", b""
    return "program" if path.stat().st_mode & stat.S_IXUSR else "file", path.read_bytes()
