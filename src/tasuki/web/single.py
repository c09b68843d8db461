"""One server for a folder: a lock that only one process holds, and the address where it answers."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tasuki.data_folder import find_fault, tell_fault
from tasuki.errors import ServerRuns, StoreFailed
from tasuki.launch.processes import is_alive, started_at
from tasuki.plain import one_line
from tasuki.vault.store import FULL, private_folder, why

LOCK, ADDRESS = "lock", "address"


@contextmanager
def alone(folder: Path) -> Iterator[TextIO]:
    """Hold the lock of a folder; the file under it, to say who holds it.

    Raises ServerRuns where another process has it, StoreFailed where there can be none.
    """
    path = folder / LOCK
    try:
        private_folder(folder)
        number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if reason := find_fault(folder.parent):
            raise StoreFailed(tell_fault(folder.parent, reason)) from error
        raise StoreFailed(_tell_unwritten(path, error)) from error
    with os.fdopen(number, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _runs(folder.parent, file.read(500)) from None
        try:
            say(file, f"process {os.getpid()}")
        except OSError as error:
            raise StoreFailed(_tell_unwritten(path, error)) from error
        try:
            yield file
        finally:
            with suppress(OSError):
                say(file, "")


def say(lock: TextIO, who: str) -> None:
    """Write down who holds the lock, past the buffer: it would be written again at the end."""
    os.ftruncate(lock.fileno(), 0)
    os.pwrite(lock.fileno(), who.encode(), 0)


def _tell_unwritten(path: Path, error: OSError) -> str:
    if error.errno in FULL:
        return f"The lock {path} cannot be written: {why(error)}. Make room, then start again."
    return f"The lock {path} cannot be made: {why(error)}. Mend that, or name another data folder: TASUKI_DATA"


def _runs(data: Path, who: str) -> ServerRuns:
    pid = who.removeprefix("process ").partition(",")[0]
    end = (
        f"Use that one, or end it first: kill {pid}"
        if pid.isdigit()
        else "Use that one, or end it first."
    )
    return ServerRuns(
        f"A server has the data folder {data} already ({one_line(who, 200) or 'it is starting'}). {end} "
        "A second fleet needs a folder of its own: TASUKI_DATA=/some/folder"
    )


def described(address: str, proof: str) -> str:
    """What the file of an address says, in three lines that the hook script reads.

    `127.0.0.1:8787`; this process, when it began, the machine's boot and the PID namespace, each a
    word, `-` where the system does not tell; the words that its answers to hooks prove it with.
    """
    began = started_at(os.getpid())
    words = (str(os.getpid()), began if began.isdigit() else "-", _boot(), _namespace())
    return f"{address}\n{' '.join(words)}\n{proof}\n"


def is_stale(text: str) -> bool:
    """Whether the server that described itself so is surely gone: it was killed.

    False where that cannot be known: the words are none of ours, or of another PID namespace.
    """
    try:
        pid, began, boot, namespace = text.split("\n")[1].split()
        number = int(pid)
    except (IndexError, ValueError):
        return False
    if boot != _boot():
        return True
    return namespace == _namespace() and not is_alive(number, began.removeprefix("-"))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "-"


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"


@contextmanager
def known_at(folder: Path, address: str, proof: str = "") -> Iterator[None]:
    """Tell hooks and commands where the server answers while the body runs: see `described`.

    Without a proof hooks send nothing. Raises StoreFailed.
    """
    path = folder / ADDRESS
    new = path.with_name(f".{ADDRESS}-{secrets.token_hex(4)}")
    try:
        number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "w") as file:
            file.write(described(address, proof))
        os.replace(new, path)
    except OSError as error:
        raise StoreFailed(f"The address {path} cannot be written: {why(error)}.") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
