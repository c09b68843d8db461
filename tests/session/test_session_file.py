"""Files of sessions stay whole: killed writers, torn lines, full disks, two writers."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from session_files import lines, say, session
from tree import PROGRAMS
from waiting import retry_until

from tasuki.errors import StoreFailed
from tasuki.harness.pi_v3.adapter import Pi
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import build_user_message

__all__ = ["session"]

APPENDER = PROGRAMS / "append_forever.py"


def test_killed_while_it_writes_no_whole_line_is_lost(session: SessionManager) -> None:
    """A process killed in the middle of appending leaves a file that opens and goes on."""
    session.flush()
    session.close()
    for _ in range(5):
        size = session.path.stat().st_size
        writer = subprocess.Popen([sys.executable, str(APPENDER), str(session.path)])
        retry_until(lambda size=size: session.path.stat().st_size > size + 200_000)  # type: ignore[misc]
        writer.kill()
        writer.wait()

    whole = session.path.read_bytes().splitlines()
    with closing(SessionManager.open(session.path)) as again:
        again.append_message(build_user_message("after"))
    assert len(again.tree.get_branch()) == len(again.tree.entries) >= len(whole) - 1
    assert [entry["id"] for entry in again.tree.entries[:-1]] == [
        json.loads(line)["id"] for line in whole[1:] if _whole(line)
    ]
    assert Pi().read(session.path).report.broken == ()


def _whole(line: bytes) -> bool:
    try:
        return bool(json.loads(line))
    except ValueError:
        return False


def test_a_torn_line_is_told_and_cut_off_when_something_is_added(session: SessionManager) -> None:
    """Reading alone changes nothing; an addition takes the place of the torn end."""
    say(session, "one", "two")
    session.flush()
    session.close()
    whole = session.path.read_bytes()
    session.path.write_bytes(whole + b'{"type":"message","id":"1234')

    again = SessionManager.open(session.path)

    assert "is incomplete (28 bytes of it were written)" in again.notes[0]
    assert session.path.read_bytes().endswith(b"1234")
    again.append_message(build_user_message("three"))
    assert session.path.read_bytes().startswith(whole)
    assert [entry["type"] for entry in lines(session)] == ["session"] + ["message"] * 3


def test_a_last_line_without_its_end_is_a_line(session: SessionManager) -> None:
    """Only the line end was not written: the entry counts, and the next one gets a line."""
    say(session, "one", "two")
    session.flush()
    session.close()
    session.path.write_bytes(session.path.read_bytes().rstrip(b"\n"))

    with closing(SessionManager.open(session.path)) as again:
        assert again.count_messages() == 2
        assert again.notes == []
        again.append_message(build_user_message("three"))
    assert len(lines(session)) == 4


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file may become larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_memory_and_file_as_they_were(session: SessionManager) -> None:
    """An entry that does not fit is refused, half of it is in neither place, and it goes on."""
    say(session, "one", "two")
    session.flush()
    before, leaf = session.path.read_bytes(), session.tree.leaf

    with (
        at_most(len(before) + 100),
        pytest.raises(StoreFailed, match=r"could not be written to .*"),
    ):
        session.append_message(build_user_message("x" * 1000))

    assert session.path.read_bytes() == before
    assert (session.tree.leaf, len(session.tree.entries)) == (leaf, 2)
    say(session, "three")
    assert SessionManager.open(session.path).tree.entries == session.tree.entries


def test_a_session_that_does_not_fit_leaves_no_file(session: SessionManager) -> None:
    """The first flush fails as a whole: no file, no half of one, and it can be tried again."""
    say(session, "x" * 5000)
    with at_most(1000), pytest.raises(StoreFailed, match="file size limit"):
        session.flush()

    assert list(session.folder.iterdir()) == []
    assert not session.has_file
    session.flush()
    assert len(lines(session)) == 2


def test_two_processes_cannot_write_one_session(session: SessionManager) -> None:
    """The second writer is told that another one writes; once that ended, that the file changed."""
    session.flush()
    session.close()
    second = SessionManager.open(session.path)
    writer = subprocess.Popen([sys.executable, str(APPENDER), str(session.path)])
    retry_until(lambda: session.path.stat().st_size > 20_000)
    try:
        with pytest.raises(StoreFailed, match="is being written by another process"):
            second.append_message(build_user_message("me too"))
    finally:
        writer.kill()
        writer.wait()

    with pytest.raises(StoreFailed, match="was changed by another program"):
        second.append_message(build_user_message("me too"))
    assert second.tree.entries == []


def test_a_program_that_knows_no_lock_is_noticed(session: SessionManager) -> None:
    """pi may have opened the same file: what it added is never overwritten or forked unseen."""
    session.flush()
    say(session, "one")
    with session.path.open("a") as file:
        file.write('{"type":"custom","id":"12345678","parentId":null,"customType":"x"}\n')

    with pytest.raises(StoreFailed, match="was changed by another program"):
        say(session, "two")
    assert len(session.tree.entries) == 1
