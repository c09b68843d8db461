"""A session that passes through, kept as a thread of tasuki's own: where its agent keeps none that can be read.

    first prompt → is there a thread of the agent's? → no: a session file, and every message added to it

The question is asked in a thread of its own, when the first turn is over or lasts, and again after
the next ones: an agent may write late. What is kept twice by then is removed.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tasuki.errors import TasukiError
from tasuki.session.acp.conversation import HANDOFF, Conversation
from tasuki.session.acp.delivery import trouble
from tasuki.session.acp.process import in_thread
from tasuki.session.acp.wire import Json

if TYPE_CHECKING:
    from tasuki.harness.protocol import Harness
    from tasuki.session.session_file import Records, SessionFile

LOOK_SECONDS = 5.0
"""How long a first turn lasts before the agent's own thread is looked for."""
LOOKS = 3
SLACK_SECONDS = 60.0
"""The agent's thread was written to at most so long before the first prompt that we saw."""
MARK = "acp"
"""Type of the entry that names the agent's session."""
HEAD = 4_096


class KeptThread:
    """One session of an agent. `loaded` says that it may have been kept before, `parent` is the file
    of the session that was handed off to it, `own` whether the agent keeps threads, if known, and
    `after` what has to be over first: the same session may have been kept until just now."""

    def __init__(
        self,
        agent: str,
        cwd: str,
        conversation: Conversation,
        *,
        parent: str = "",
        loaded: bool = False,
        own: bool | None = None,
        after: "asyncio.Task[None] | None" = None,
    ) -> None:
        self.agent, self.cwd, self.parent, self.loaded = agent, cwd, parent, loaded
        self.own = own
        self._conversation, self._after = conversation, after
        self._since = time.time() - SLACK_SECONDS
        self._turn = asyncio.Event()
        self._closing = False
        self._file: SessionFile | None = None
        self._is_ours_alone = False
        """The file was made here, and nobody was told of it."""
        self._count, self._leaf = 0, ""
        conversation.close()
        self._before = [] if own else list(conversation.messages)
        """What was said before the first prompt: a loaded session tells it again."""
        self._waiting: list[Json] = []
        if not own:
            conversation.heard = self._take
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end_turn(self) -> None:
        """A turn is over."""
        self._turn.set()

    async def written(self) -> Path | None:
        """The file with all that was said; None where there is none."""
        if self._conversation.heard == self._take:
            self._conversation.close()
        self._closing, self._is_ours_alone = True, False
        self._turn.set()
        await asyncio.wait({self._task})
        return self._file.path if self._file else None

    def hear_no_more(self) -> None:
        """Whatever is said from now on is not for this thread."""
        if self._conversation.heard == self._take:
            self._conversation.close()
            self._conversation.heard = None

    async def finish(self) -> None:
        """Write what is not written yet, and let go of the file."""
        self.hear_no_more()
        await self.written()
        if self._file:
            self._file.close()

    def discard(self) -> None:
        """The agent keeps a thread itself: ours would be a second one."""
        self.own = True
        self.hear_no_more()
        file, self._file = self._file, None
        self._before, self._waiting = [], []
        if file:
            file.close()
        if file and self._is_ours_alone:
            with suppress(OSError):
                file.path.unlink(missing_ok=True)

    # -- beside the routing ----------------------------------------------------------------

    async def _run(self) -> None:
        if self.own:
            return
        if self._after:
            await asyncio.wait({self._after})
        try:
            if self.own is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._turn.wait(), LOOK_SECONDS)
            for _ in range(LOOKS):
                self._turn.clear()
                if self.own is None and await in_thread(self._is_kept_by_agent):
                    self.discard()
                    return
                if self._file is None:
                    await self._begin()
                if self._closing:
                    return
                await self._turn.wait()
        except Exception as error:
            self._fail(error)

    def _is_kept_by_agent(self) -> bool:
        return thread_of(self.agent, self._since) is not None

    async def _begin(self) -> None:
        """Write the file with what was said so far; what is said meanwhile is added."""
        first, self._waiting = self._waiting, []
        file = await in_thread(lambda: self._written_first(first))
        self._before = []
        self._file = file  # type: ignore[assignment]
        if self.own:  # A handoff found the agent's thread meanwhile.
            self.discard()
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._take(message)

    def _written_first(self, messages: Iterable[Json]) -> "SessionFile":
        from tasuki.harness.pi_v3 import format as pi_format
        from tasuki.session.manager import default_folder
        from tasuki.session.session_file import SessionFile, records

        cwd = os.path.abspath(self.cwd)
        folder = default_folder(cwd)
        if self.loaded and (path := _kept_before(folder, self.agent)):
            read = records(path)
            file = SessionFile(path, read)
            self._count, self._leaf = len(read.entries), _last_id(read)
            for message in messages:
                file.append(self._entry(message))
            return file
        id, at = pi_format.new_id(), pi_format.now()
        mark = self._linked({"type": "custom", "customType": MARK, "data": {"session": self.agent}})
        entries = [mark, *map(self._entry, (*self._before, *messages))]
        file = SessionFile(folder / pi_format.file_name(id, at))
        file.write_whole([pi_format.header(id, cwd, at, self.parent), *entries])
        self._is_ours_alone = True
        return file

    # -- on the way of a message -----------------------------------------------------------

    def _take(self, message: Json) -> None:
        """Add a message; one write, which is not waited for on the disk."""
        if self._file is None:
            self._waiting.append(message)
            return
        try:
            self._file.append(self._entry(message))
        except TasukiError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """It cannot be kept: told once, and the session goes on."""
        trouble(error)
        if self._conversation.heard == self._take:
            self._conversation.heard = None  # It may be telling this very message.
        file, self._file = self._file, None
        self._before, self._waiting = [], []
        if file:
            file.close()

    def _entry(self, message: Json) -> Json:
        from tasuki.session.messages import milliseconds

        if message["role"] == HANDOFF:
            return self._linked({"type": "custom_message", "customType": HANDOFF, "content": message["content"], "display": True})  # fmt: skip
        return self._linked({"type": "message", "message": {"timestamp": milliseconds(), **message}})  # fmt: skip

    def _linked(self, fields: Json) -> Json:
        from tasuki.harness.pi_v3.format import now

        self._count += 1
        above, self._leaf = self._leaf, f"{self._count:08x}"
        place = {"id": self._leaf, "parentId": above or None, "timestamp": now()}
        return {"type": fields.pop("type"), **place, **fields}


def thread_of(session: str, since: float = 0.0) -> "tuple[Harness, Path] | None":
    """The thread that an agent keeps of a session: the one with its id, the newest first.

    Threads that were last written to before `since`, seconds of the clock, are not looked at.
    """
    from tasuki.threads import catalog

    for harness, file in catalog.files():
        if file.modified < since:
            return None
        head = catalog.read_head(harness, file)
        if head and head.id.lower() == session.lower():
            return harness, file.path
    return None


def _kept_before(folder: Path, agent: str) -> Path | None:
    """The newest file in which a session of an agent was kept."""
    from tasuki.harness.pi_v3.format import dump

    mark = dump([{"customType": MARK, "data": {"session": agent}}]).strip()[1:-1]
    return next((p for p in _newest(folder) if mark.encode() in _head(p)), None)


def _newest(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.jsonl"), reverse=True)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _last_id(read: "Records") -> str:
    return str(read.entries[-1]["id"]) if read.entries else ""
