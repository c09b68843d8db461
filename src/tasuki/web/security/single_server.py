"""One server for a folder: a lock that only one process holds, and the address where it answers."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tasuki.errors import ServerRuns, StoreFailed
from tasuki.files import (
    FULL,
    create_private_folder,
    describe_fault,
    explain_error,
    find_fault,
    replace_file,
)
from tasuki.launch.processes import find_start_time, is_alive, read_boot_id
from tasuki.text_safety import shorten_to_line

LOCK_FILE, ADDRESS_FILE = "lock", "address"


@contextmanager
def hold_lock(folder: Path) -> Iterator[TextIO]:
    """Hold the lock of a folder; yield its file, in which the holder is written.

    Raises ServerRuns where another process has it, StoreFailed where it cannot be created.
    """
    path = folder / LOCK_FILE
    try:
        create_private_folder(folder)
        number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if reason := find_fault(folder.parent):
            raise StoreFailed(describe_fault(folder.parent, reason)) from error
        raise StoreFailed(_describe_unwritten(path, error)) from error
    with os.fdopen(number, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _build_server_runs(folder.parent, file.read(500)) from None
        try:
            write_holder(file, f"process {os.getpid()}")
        except OSError as error:
            raise StoreFailed(_describe_unwritten(path, error)) from error
        try:
            yield file
        finally:
            with suppress(OSError):
                write_holder(file, "")


def write_holder(lock: TextIO, holder: str) -> None:
    """Write the holder of the lock, past the buffer, which would be written again at the end."""
    os.ftruncate(lock.fileno(), 0)
    os.pwrite(lock.fileno(), holder.encode(), 0)


def _describe_unwritten(path: Path, error: OSError) -> str:
    if error.errno in FULL:
        return f"The lock {path} cannot be written: {explain_error(error)}. Make room, then start again."
    return f"The lock {path} cannot be created: {explain_error(error)}. Fix that, or name another data folder: TASUKI_DATA"


def format_holder(address: str, public_url: str) -> str:
    """Format what the lock says of a server: its process, its address, its public one."""
    addresses = [f"http://{address}", *([public_url] if public_url else [])]
    return f"process {os.getpid()}, {', '.join(addresses)}"


def find_served_url(folder: Path) -> str | None:
    """Find the public address of the server that runs, empty without one; None where none runs."""
    try:
        address = (folder / ADDRESS_FILE).read_text("ascii")
        holder = (folder / LOCK_FILE).read_text("utf-8")
    except (OSError, ValueError):
        return None
    if is_stale(address) or not holder:
        return None
    return next((word for word in holder.split(", ") if word.startswith("https://")), "")


def _build_server_runs(data: Path, holder: str) -> ServerRuns:
    pid = holder.removeprefix("process ").partition(",")[0]
    end = f"Use that one, or end it first{f': kill {pid}' if pid.isdigit() else '.'}"
    return ServerRuns(
        f"A server has the data folder {data} already ({shorten_to_line(holder, 200) or 'it is starting'}). {end} "
        "A second fleet needs its own folder: TASUKI_DATA=/some/folder"
    )


def format_address_file(address: str, proof: str) -> str:
    """Format the file of an address, in three lines that the hook script reads.

    `127.0.0.1:8787`; this process, when it began, the machine's boot and the PID namespace,
    each a word, `-` where the system does not say; the words that prove its answers to hooks.
    """
    began = find_start_time(os.getpid())
    words = (str(os.getpid()), began if began.isdigit() else "-", read_boot_id(), _read_namespace())
    return f"{address}\n{' '.join(words)}\n{proof}\n"


def is_stale(text: str) -> bool:
    """Whether the server that wrote this text is surely gone: it was killed.

    False where that cannot be known: the words are not tasuki's, or of another PID namespace.
    """
    try:
        pid, began, boot, namespace = text.split("\n")[1].split()
        number = int(pid)
    except (IndexError, ValueError):
        return False
    if boot != read_boot_id():
        return True
    return namespace == _read_namespace() and not is_alive(number, began.removeprefix("-"))


def _read_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"


@contextmanager
def publish_address(folder: Path, address: str, proof: str = "") -> Iterator[None]:
    """Publish where the server answers, for hooks and commands, while the body runs.

    See `format_address_file`. Without a proof hooks send nothing. Raises StoreFailed.
    """
    path = folder / ADDRESS_FILE
    try:
        replace_file(path, format_address_file(address, proof).encode(), synced=False)
    except OSError as error:
        raise StoreFailed(
            f"The address {path} cannot be written: {explain_error(error)}."
        ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
