"""Moving work is killed at any point, then called again: it is whole, and nothing of others is lost."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from checkouts import Pair, change_files, commit_all, git, make_pair, read_state
from msgspec import Struct

from tasuki.fleet.handoff.bundles.arrivals import undo_unpack, unpack_work
from tasuki.fleet.handoff.bundles.packs import PackedWork, pack_work
from tasuki.fleet.handoff.bundles.places import WorkPlace
from tasuki.fleet.store.failures import StepFailed

PROGRAM = Path(__file__).parents[1] / "programs" / "move_killed.py"
ID = "move-1"


class Move(Struct, frozen=True):
    """Packed work, where it lands, and copies of the target before."""

    pair: Pair
    packed: PackedWork
    place: WorkPlace
    file: Path

    def run(self, what: str, at: int) -> int:
        """Unpack or undo in a process that dies at a point; how many points there were, 0 if it died."""
        place = msgspec.json.encode(self.place).decode()
        done = subprocess.run(
            [
                sys.executable,
                str(PROGRAM),
                str(self.pair.target),
                what,
                str(self.file),
                place,
                str(at),
            ],
            capture_output=True,
            check=False,
        )
        if done.returncode == -signal.SIGKILL:
            return 0
        assert done.returncode == 0, done.stderr.decode()
        return int(done.stdout)

    def unpack(self) -> None:
        """Unpack in this process."""
        unpack_work(str(self.pair.target), self.place, self.packed, ID)

    def undo(self) -> str:
        """Take it back in this process."""
        return undo_unpack(str(self.pair.target), self.place, ID)

    def check_whole(self) -> None:
        """Assert that the work is there as it was, and nothing else."""
        assert read_state(Path(self.place.folder)) == read_state(self.pair.source)
        assert (
            git(self.pair.target, "rev-parse", f"refs/tasuki/moved/{ID}") == self.packed.last_commit
        )
        assert not (self.pair.target / ".git" / "tasuki-private").exists()

    def check_undone(self, original: object) -> None:
        """Assert that the target is as it was."""
        assert read_state(self.pair.target) == original
        assert self.place.in_place == os.path.lexists(self.place.folder)
        assert git(self.pair.target, "for-each-ref", "refs/tasuki", "refs/heads/move") == ""


@pytest.fixture(params=["in place", "worktree"])
def move(tmp_path: Path, request: pytest.FixtureRequest) -> Move:
    """Work of every kind, on an unpublished commit if it lands in a worktree."""
    pair = make_pair(tmp_path)
    if request.param == "worktree":
        (pair.source / "README").write_text("second\n")
        commit_all(pair.source, "second")
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    assert place.in_place == (request.param == "in place")
    file = tmp_path / "packed.json"
    file.write_bytes(msgspec.json.encode(packed))
    return Move(pair, packed, place, file)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95])
def test_unpacking_is_killed(move: Move, share: float, tmp_path: Path) -> None:
    """The second call makes it whole; or it can be taken back."""
    original = read_state(move.pair.target)
    total = count_points(move, "unpack")
    assert move.run("unpack", int(total * share)) == 0
    if share in (0.4, 0.7, 0.9):
        move.undo()
        move.check_undone(original)
    move.unpack()
    move.check_whole()


@pytest.mark.long
def test_unpacking_is_killed_anywhere(move: Move) -> None:
    """At each point in turn, then called again; and taken back, at every second one."""
    original = read_state(move.pair.target)
    for point in range(1, count_points(move, "unpack") + 1):
        assert move.run("unpack", point) == 0
        if point % 2:
            move.unpack()
            move.check_whole()
        assert "left" not in move.undo()
        move.check_undone(original)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.75, 0.9])
def test_undoing_is_killed(move: Move, share: float) -> None:
    """The second call ends it."""
    original = read_state(move.pair.target)
    move.unpack()
    total = count_points(move, "undo")
    assert move.run("undo", int(total * share)) == 0
    move.undo()
    move.check_undone(original)


@pytest.mark.long
def test_undoing_is_killed_anywhere(move: Move) -> None:
    """At each point in turn."""
    original = read_state(move.pair.target)
    move.unpack()
    for point in range(1, count_points(move, "undo") + 1):
        assert move.run("undo", point) == 0
        move.undo()
        move.check_undone(original)
        move.unpack()
        move.check_whole()


def count_points(move: Move, what: str) -> int:
    """How many points there are; the target is as before afterwards."""
    total = move.run(what, 0)
    if what == "unpack":
        move.undo()
    else:
        move.unpack()
    assert total > 40
    return total


@pytest.mark.parametrize("share", [0.75, 0.85])
def test_what_others_change_after_a_kill_is_kept(move: Move, share: float) -> None:
    """The second call names the file, and changes nothing; so does taking it back."""
    total = count_points(move, "unpack")
    assert move.run("unpack", int(total * share)) == 0
    folder = Path(move.place.folder)
    shutil.rmtree(folder / f".tasuki-move-{ID}", ignore_errors=True)
    (folder / "src" / "upload.py").write_text("theirs\n")
    before = read_state(folder)
    with pytest.raises(StepFailed, match=r"src/upload\.py"):
        move.unpack()

    assert read_state(folder) == before
    assert "left as it is" in move.undo()
    assert read_state(folder) == before


def test_git_is_killed_while_it_writes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter of the user's kills git in the middle of a checkout, once; the worktree is made anew."""
    pair = make_pair(tmp_path)
    (pair.source / ".gitattributes").write_text("run.sh filter=deadly\n")
    commit_all(pair.source, "filter")
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    script = tmp_path / "deadly"
    script.write_text(
        f"#!/bin/sh\nif [ ! -e {tmp_path}/dead ]; then touch {tmp_path}/dead; kill -9 $PPID; fi\ncat\n"
    )
    script.chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(
        f'[filter "deadly"]\n\tsmudge = exec {script}\n\tclean = cat\n\trequired = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with pytest.raises(StepFailed) as failed:
        unpack_work(str(pair.target), place, packed, ID)

    assert failed.value.code == "work_not_unpacked"
    assert (tmp_path / "dead").exists()
    unpack_work(str(pair.target), place, packed, ID)
    assert read_state(Path(place.folder)) == read_state(pair.source)


@pytest.mark.parametrize("call", ["index-pack", "checkout-index", "read-tree --reset", "update-ref --stdin", "worktree add"])  # fmt: skip
def test_a_git_that_outlives_its_server_is_waited_for(
    move: Move, call: str, tmp_path: Path
) -> None:
    """The server is killed as git begins, which goes on; the second call begins at once and makes it whole."""
    if call == "worktree add" and move.place.in_place:
        pytest.skip("no worktree is made in place")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *"{call}"*) if mkdir {tmp_path}/once 2>/dev/null; then '
        f'kill -9 $PPID; sleep 0.5; fi;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        assert move.run("unpack", 0) == 0
    assert (tmp_path / "once").exists()
    move.unpack()
    move.check_whole()


def test_two_at_once_give_one(move: Move) -> None:
    """The second waits for the first and finds that it is done."""
    place = msgspec.json.encode(move.place).decode()
    command = [
        sys.executable,
        str(PROGRAM),
        str(move.pair.target),
        "unpack",
        str(move.file),
        place,
        "0",
    ]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]

    assert [process.communicate() and process.returncode for process in both] == [0, 0, 0]
    move.check_whole()
