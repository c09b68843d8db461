"""Records a session that passes through as a thread of tasuki, where its agent keeps none to read.

    first prompt → has the agent a thread? → no: a session file, and every message added to it

The check runs in its own thread, when the first turn is over or lasts, and again after
the next ones: an agent may write late. A copy that is no longer needed by then is removed.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tasuki.errors import TasukiError
from tasuki.session.acp.conversation import HANDOFF_ROLE, AcpConversation
from tasuki.session.acp.wire import Json, print_problem
from tasuki.session.futures import run_in_thread
from tasuki.session.pi_store.messages import convert_time

if TYPE_CHECKING:
    from tasuki.harness.protocol import Harness
    from tasuki.session.pi_store.session_file import LockedSessionFile

LOOK_SECONDS = 5.0
"""How long a first turn lasts before the agent's own thread is looked for."""
MOST_LOOKS = 3
SLACK_SECONDS = 60.0
"""The agent's thread was last written at most this long before the first prompt seen here."""
MARK_TYPE = "acp"
"""Type of the entry that names the agent's session."""
HEAD_BYTES = 4_096


class RecordedThread:
    """One session of an agent, recorded as a thread.

    `loaded` says that it may have been recorded before; `parent` is the file of the session
    that was handed off to it; `has_own_thread` whether the agent keeps threads, if known; and
    `previous_task` is what must end first: the same session may have been recorded until just
    now.
    """

    def __init__(
        self,
        agent: str,
        cwd: str,
        conversation: AcpConversation,
        *,
        parent: str = "",
        loaded: bool = False,
        has_own_thread: bool | None = None,
        previous_task: "asyncio.Task[None] | None" = None,
    ) -> None:
        self.agent, self.cwd, self.parent, self.loaded = agent, cwd, parent, loaded
        self.has_own_thread = has_own_thread
        self._conversation, self._previous_task = conversation, previous_task
        self._since = time.time() - SLACK_SECONDS
        self._turn = asyncio.Event()
        self._closing = False
        self._file: LockedSessionFile | None = None
        self._is_unshared = False
        """The file was created here, and nothing refers to it yet."""
        self._count, self._leaf = 0, ""
        conversation.end_turn()
        self._earlier_messages = [] if has_own_thread else list(conversation.messages)
        """Messages from before the first prompt: a loaded session sends them again."""
        self._waiting: list[Json] = []
        if not has_own_thread:
            conversation.on_message = self._record_message
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end_turn(self) -> None:
        """Note that a turn is over."""
        self._turn.set()

    async def write_all(self) -> Path | None:
        """Write all messages and return the file; None where there is none."""
        if self._conversation.on_message == self._record_message:
            self._conversation.end_turn()
        self._closing = True
        self._turn.set()
        await asyncio.wait({self._task})
        self._is_unshared = False  # The task may just have created it.
        return self._file.path if self._file else None

    def stop_listening(self) -> None:
        """Stop recording: later messages are not for this thread."""
        if self._conversation.on_message == self._record_message:
            self._conversation.end_turn()
            self._conversation.on_message = None

    async def finish(self) -> None:
        """Write what is not written yet, and close the file."""
        self.stop_listening()
        await self.write_all()
        if self._file:
            self._file.close()

    def discard(self) -> None:
        """Discard the record: the agent keeps a thread itself, so this would be a second one."""
        self.has_own_thread = True
        self.stop_listening()
        file, self._file = self._file, None
        self._earlier_messages, self._waiting = [], []
        if file:
            file.close()
        if file and self._is_unshared:
            with suppress(OSError):
                file.path.unlink(missing_ok=True)

    # -- in its own task -------------------------------------------------------------------

    async def _run(self) -> None:
        if self.has_own_thread:
            return
        if self._previous_task:
            await asyncio.wait({self._previous_task})
        try:
            if self.has_own_thread is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._turn.wait(), LOOK_SECONDS)
            for _ in range(MOST_LOOKS):
                self._turn.clear()
                if self.has_own_thread is None and await run_in_thread(
                    lambda: find_thread(self.agent, self._since) is not None
                ):
                    self.discard()
                    return
                if self._file is None:
                    await self._begin_file()
                if self._closing:
                    return
                await self._turn.wait()
        except Exception as error:
            self._handle_failure(error)

    async def _begin_file(self) -> None:
        """Write the file with the messages so far; messages that come meanwhile are added."""
        first, self._waiting = self._waiting, []
        self._file = await run_in_thread(lambda: self._write_first(first))
        self._earlier_messages = []
        if self.has_own_thread:  # A handoff found the agent's thread meanwhile.
            self.discard()
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._record_message(message)

    def _write_first(self, messages: Iterable[Json]) -> "LockedSessionFile":
        from tasuki.harness.pi_v3 import format as pi_format
        from tasuki.session.pi_store.manager import get_default_folder
        from tasuki.session.pi_store.session_file import LockedSessionFile, read_records

        cwd = os.path.abspath(self.cwd)
        folder = get_default_folder(cwd)
        if self.loaded and (path := _find_recorded(folder, self.agent)):
            read = read_records(path)
            file = LockedSessionFile(path, read)
            self._count = len(read.entries)
            self._leaf = str(read.entries[-1]["id"]) if read.entries else ""
            for message in messages:
                file.append(self._build_entry(message))
            return file
        id, at = pi_format.create_id(), pi_format.format_now()
        mark = self._link_entry("custom", customType=MARK_TYPE, data={"session": self.agent})
        entries = [mark, *map(self._build_entry, (*self._earlier_messages, *messages))]
        file = LockedSessionFile(folder / pi_format.build_file_name(id, at))
        file.write_whole([pi_format.build_header(id, cwd, at, self.parent), *entries])
        self._is_unshared = True
        return file

    # -- on the way of a message -----------------------------------------------------------

    def _record_message(self, message: Json) -> None:
        """Add a message in one write, without waiting for the disk."""
        if self._file is None:
            self._waiting.append(message)
            return
        try:
            self._file.append(self._build_entry(message))
        except TasukiError as error:
            self._handle_failure(error)

    def _handle_failure(self, error: Exception) -> None:
        """Stop recording after an error: it is printed once, and the session goes on."""
        print_problem(error)
        if self._conversation.on_message == self._record_message:
            self._conversation.on_message = None  # This call may come from it.
        file, self._file = self._file, None
        self._earlier_messages, self._waiting = [], []
        if file:
            file.close()

    def _build_entry(self, message: Json) -> Json:
        if message["role"] == HANDOFF_ROLE:
            fields = {"customType": HANDOFF_ROLE, "content": message["content"], "display": True}
            return self._link_entry("custom_message", **fields)
        return self._link_entry("message", message={"timestamp": convert_time(), **message})

    def _link_entry(self, kind: str, **fields: object) -> Json:
        from tasuki.session.pi_store.session_file import build_entry

        self._count += 1
        parent, self._leaf = self._leaf, f"{self._count:08x}"
        return build_entry(kind, self._leaf, parent or None, **fields)


def find_thread(session: str, since: float = 0.0) -> "tuple[Harness, Path] | None":
    """Find the thread that an agent keeps of a session: the one with its id, newest first.

    Threads last written before `since`, in seconds since 1970, are not looked at.
    """
    from tasuki.threads import catalog

    for harness, file in catalog.find_thread_files():
        if file.modified < since:
            return None
        head = catalog.read_head(harness, file)
        if head and head.id.lower() == session.lower():
            return harness, file.path
    return None


def _find_recorded(folder: Path, agent: str) -> Path | None:
    """Find the newest file in which a session of an agent was recorded."""
    from tasuki.harness.pi_v3.format import dump_records

    mark = dump_records([{"customType": MARK_TYPE, "data": {"session": agent}}]).strip()[1:-1]
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        with suppress(OSError), path.open("rb") as file:
            if mark.encode() in file.read(HEAD_BYTES):
                return path
    return None
