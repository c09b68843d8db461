"""The sessions of a connection: their ids on either side, their state, what survives a restart.

A client keeps one session id while handoffs replace one agent session by another. Each such
chain is a separate file below `<data>/acp/<agent>/`, so that proxies never overwrite each
other's chains. A file is replaced as a whole or not at all. The message that a new session
begins with is kept there until it has arrived.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from tasuki.errors import StoreFailed, TasukiError
from tasuki.files import get_data_folder, replace_file, sync_folder
from tasuki.session.acp.conversation import AcpConversation
from tasuki.session.acp.recorder import RecordedThread
from tasuki.session.acp.wire import Id, Json, RpcMessage, print_problem


class AcpChain(Struct, frozen=True):
    """One session of a client, and the agent's sessions that it stood for."""

    client: str
    agent: str
    """The session of the agent that is in use."""
    previous: tuple[str, ...] = ()
    """The earlier ones, oldest first."""
    message: str = ""
    """What the next prompt begins with, until it is delivered."""
    handoff: str = ""
    """Id of the handoff that the message came from."""
    sending: bool = False
    """The message was sent, and it is not known yet whether it arrived."""


class ChainStore:
    """The chains of one agent, by its command."""

    def __init__(self, command: Sequence[str], root: Path | None = None) -> None:
        name = hashlib.sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()[:16]
        self.folder = (root or get_data_folder() / "acp") / (name if command else "conductor")

    def load_chain(self, client: str) -> AcpChain | None:
        """Load the chain of a client's session; None if it was never handed off."""
        try:
            chain = msgspec.json.decode(self._get_path(client).read_bytes(), type=AcpChain)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        return chain if chain.client == client else None

    def list_chains(self) -> Iterator[AcpChain]:
        """Yield every chain that can be read."""
        with suppress(OSError):
            for path in sorted(self.folder.glob("*.json")):
                with suppress(OSError, ValueError, msgspec.MsgspecError):
                    yield msgspec.json.decode(path.read_bytes(), type=AcpChain)

    def save_chain(self, chain: AcpChain) -> None:
        """Save a chain; it is readable by the user alone. Raises StoreFailed."""
        path = self._get_path(chain.client)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(chain))
            sync_folder(self.folder)
        except (OSError, UnicodeEncodeError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise StoreFailed(
                f"{path} could not be written: {reason}. TASUKI_DATA can name another folder."
            ) from error

    def delete_chain(self, client: str) -> None:
        """Delete a chain."""
        with suppress(OSError):
            self._get_path(client).unlink(missing_ok=True)

    def _get_path(self, client: str) -> Path:
        name = hashlib.sha256(client.encode(errors="surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json"


def merge_chains(sessions: list[object], chains: Sequence[AcpChain]) -> list[object]:
    """Merge the agent's sessions into one entry for each chain, under the client's id.

    The newest session represents its chain. An agent may not list a session without a prompt;
    then the one before represents the chain.
    """
    present = {id for entry in sessions if (id := _get_session_id(entry))}
    client_ids: dict[str, str] = {}
    hidden: set[str] = set()
    for chain in chains:
        members = (*chain.previous, chain.agent)
        newest = next((id for id in reversed(members) if id in present), "")
        if newest != chain.agent and not chain.message:
            newest = ""  # It is on another page of the list.
        hidden.update(members)
        if newest:
            client_ids[newest] = chain.client
    merged: list[object] = []
    for entry in sessions:
        id = _get_session_id(entry)
        if id in client_ids and isinstance(entry, dict):
            merged.append({**entry, "sessionId": client_ids[id]})
        elif id not in hidden:
            merged.append(entry)
    return merged


def _get_session_id(entry: object) -> str:
    id = entry.get("sessionId") if isinstance(entry, dict) else None
    return id if isinstance(id, str) else ""


SETUP_FIELDS = ("cwd", "mcpServers", "additionalDirectories", "_meta")
"""What the client sends about a session whenever it opens one."""
SETTING_METHODS = ("session/set_mode", "session/set_config_option", "session/set_model")


class AcpSession(Struct, eq=False):
    """One session of the client, and the agent session that it uses."""

    client: str
    agent: str
    previous: tuple[str, ...] = ()
    message: str = ""
    """What the next prompt begins with."""
    handoff_id: str = ""
    sending: bool = False
    """Those before are as in `AcpChain`, in the same order."""
    setup: Json = {}
    """Parameters of a `session/new` that opens another session like this one."""
    settings: dict[tuple[str, object], Json] = {}
    """The settings, newest last, by method and option."""
    commands: list[object] = []
    is_open: bool = False
    """The client has the answer that introduces the session."""
    turns: set[Id] = set()
    """Prompts whose turn is not over."""
    conversation: AcpConversation = field(default_factory=AcpConversation)
    is_loaded: bool = False
    """The agent opened it again: it is older than this connection."""
    recorded_thread: RecordedThread | None = None
    """Its thread, from the first prompt on."""
    parent_thread: str = ""
    """File of the session that was handed off to it."""
    has_own_thread: bool | None = None
    """Whether the agent keeps threads that can be read, if the session before showed it."""
    waiting: list[RpcMessage] = []
    """Messages of the client that wait for the end of the handoff."""

    @property
    def chain(self) -> AcpChain:
        """The chain to save."""
        return AcpChain(
            self.client, self.agent, self.previous, self.message, self.handoff_id, self.sending
        )

    def begin_agent_session(self, message: str, handoff_id: str) -> None:
        """Begin with a new agent session, which should receive a message."""
        self.message, self.handoff_id, self.sending = message, handoff_id, False
        self.conversation, self.recorded_thread, self.is_loaded = AcpConversation(), None, False

    def end_turn(self, stop: str) -> None:
        """End a turn."""
        self.conversation.end_turn(stop)
        if self.recorded_thread:
            self.recorded_thread.end_turn()

    def remember_setting(self, method: str, params: Json) -> None:
        """Remember a setting, as the newest."""
        key = (method, params.get("configId"))
        self.settings.pop(key, None)
        self.settings[key] = params


class AcpSessions:
    """All sessions of a connection, by the ids of both sides."""

    def __init__(self) -> None:
        self.by_client: dict[str, AcpSession] = {}
        self.by_agent: dict[str, AcpSession] = {}
        self.retired: set[str] = set()
        """Agent sessions out of use: their later messages are dropped."""

    def add_session(self, session: AcpSession) -> AcpSession:
        self.by_client[session.client] = session
        self.by_agent[session.agent] = session
        self.retired.discard(session.agent)
        self.retired.update(session.previous)
        return session

    def switch_agent(self, session: AcpSession, agent: str) -> None:
        """Let a session use another agent session."""
        self.retire_agent(session.agent)
        session.previous = (*session.previous, session.agent)
        session.agent = agent
        self.add_session(session)

    def retire_agent(self, agent: str) -> None:
        self.by_agent.pop(agent, None)
        self.retired.add(agent)

    def remove_session(self, session: AcpSession) -> None:
        self.by_client.pop(session.client, None)
        if self.by_agent.get(session.agent) is session:
            del self.by_agent[session.agent]


def build_setup(method: str, params: Json, earlier: Json) -> Json:
    """Build parameters for another session like the one that a request opens."""
    if method == "session/new":
        return params
    return {**earlier, **{name: params[name] for name in SETUP_FIELDS if name in params}}


class MessageDelivery:
    """Tracks the state of a message, and adds it to the events of its handoff."""

    def __init__(self, chains: ChainStore) -> None:
        self.chains = chains

    def note_sending(self, session: AcpSession) -> None:
        """Note that the message is about to be sent with a prompt."""
        session.sending = True
        self.save_chain(session)
        append_event(session, "intent", target=session.agent)

    def note_failure(self, session: AcpSession, why: str) -> None:
        """Note that the prompt with the message failed; the message goes with the next one."""
        session.sending = False
        append_event(session, "failed", reason=why)
        self.save_chain(session)

    def settle(self, session: AcpSession, kind: str) -> None:
        """Note that the agent has the message, or that this is uncertain: it is never sent twice."""
        append_event(session, kind, target=session.agent)
        session.message, session.handoff_id, session.sending = "", "", False
        self.save_chain(session)

    def save_chain(self, session: AcpSession) -> None:
        """Save the session's chain; where that fails, a restart does not know of the message."""
        try:
            self.chains.save_chain(session.chain)
        except StoreFailed as error:
            print_problem(error)


def append_event(session: AcpSession, kind: str, **detail: str) -> None:
    """Append to the events of the handoff that a session came from."""
    if not session.handoff_id:
        return
    from tasuki.handoffs import create_event
    from tasuki.vault import Vault

    try:
        Vault().append_event(session.handoff_id, create_event(kind, **detail))
    except TasukiError as error:
        print_problem(error)
