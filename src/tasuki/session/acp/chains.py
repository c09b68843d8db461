"""Which agent session a client's session means by now: the map that survives a restart.

A client keeps one session id while handoffs put one agent session after another behind it. Each
such chain is a file of its own below `<data>/acp/<agent>/`, so that proxies never overwrite what
another one wrote, and is replaced as a whole or not at all.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.data_folder import data_folder
from tasuki.errors import StoreFailed
from tasuki.vault.store import sync_folder


class Chain(Struct, frozen=True):
    """One session of a client, and the agent's sessions behind it."""

    client: str
    agent: str
    """The session of the agent that is in use."""
    previous: tuple[str, ...] = ()
    """Those before it, the oldest first."""
    message: str = ""
    """What the next prompt begins with, as long as it was not delivered."""
    handoff: str = ""
    """Id of the handoff that it came from."""
    sending: bool = False
    """The message went out, and nobody has told yet whether it arrived."""


class Chains:
    """The chains of one agent, by its command."""

    def __init__(self, command: Sequence[str], root: Path | None = None) -> None:
        name = hashlib.sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()[:16]
        self.folder = (root or data_folder() / "acp") / (name if command else "conductor")

    def get(self, client: str) -> Chain | None:
        """The chain of a client's session; None if it was never handed off."""
        try:
            chain = msgspec.json.decode(self._path(client).read_bytes(), type=Chain)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        return chain if chain.client == client else None

    def all(self) -> Iterator[Chain]:
        """Every chain that can be read."""
        with suppress(OSError):
            for path in sorted(self.folder.glob("*.json")):
                with suppress(OSError, ValueError, msgspec.MsgspecError):
                    yield msgspec.json.decode(path.read_bytes(), type=Chain)

    def put(self, chain: Chain) -> None:
        """Keep a chain; it is the user's alone to read. Raises StoreFailed."""
        path = self._path(chain.client)
        unfinished = path.with_suffix(f".new-{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(msgspec.json.encode(chain))
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(path)
            sync_folder(self.folder)
        except (OSError, UnicodeEncodeError) as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            reason = getattr(error, "strerror", None) or error
            raise StoreFailed(
                f"{path} could not be written: {reason}. TASUKI_DATA can name another folder."
            ) from error

    def drop(self, client: str) -> None:
        """Forget a chain."""
        with suppress(OSError):
            self._path(client).unlink(missing_ok=True)

    def _path(self, client: str) -> Path:
        name = hashlib.sha256(client.encode(errors="surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json"


def listed(sessions: list[object], chains: Sequence[Chain]) -> list[object]:
    """A list of the agent's sessions with one entry for each chain, under the client's id.

    The newest session stands for its chain. An agent may not list one that nobody has prompted
    yet; then the one before stands for it.
    """
    present = {id for entry in sessions if (id := _id(entry))}
    shown: dict[str, str] = {}
    hidden: set[str] = set()
    for chain in chains:
        links = (*chain.previous, chain.agent)
        newest = next((id for id in reversed(links) if id in present), "")
        if newest != chain.agent and not chain.message:
            newest = ""  # It stands on another page of the list.
        hidden.update(links)
        if newest:
            shown[newest] = chain.client
    kept: list[object] = []
    for entry in sessions:
        id = _id(entry)
        if id in shown and isinstance(entry, dict):
            kept.append({**entry, "sessionId": shown[id]})
        elif id not in hidden:
            kept.append(entry)
    return kept


def _id(entry: object) -> str:
    id = entry.get("sessionId") if isinstance(entry, dict) else None
    return id if isinstance(id, str) else ""
