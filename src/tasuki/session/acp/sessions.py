"""The sessions of a connection: what each is called on either side, and what is known of it."""

from typing import TYPE_CHECKING

from tasuki.session.acp.chains import Chain
from tasuki.session.acp.conversation import Conversation
from tasuki.session.acp.wire import Id, Json, Message

if TYPE_CHECKING:
    from tasuki.session.acp.handover import Handover
    from tasuki.session.acp.keeping import KeptThread

SETUP = ("cwd", "mcpServers", "additionalDirectories", "_meta")
"""What the client says about a session whenever it opens one."""
SETTINGS = ("session/set_mode", "session/set_config_option", "session/set_model")


class Session:
    """One session of the client, over the agent session that is in use."""

    def __init__(self, client: str, agent: str) -> None:
        self.client, self.agent = client, agent
        self.previous: tuple[str, ...] = ()
        self.setup: Json = {}
        """Parameters of a `session/new` that opens another session like it."""
        self.settings: dict[tuple[str, object], Json] = {}
        """What was set, the newest last, by method and option."""
        self.commands: list[object] = []
        self.open = False
        """The client has the answer that tells it of the session."""
        self.turns: set[Id] = set()
        """Prompts whose turn is not over."""
        self.message = ""
        """What the next prompt begins with."""
        self.handoff = ""
        self.sending = False
        self.conversation = Conversation()
        self.loaded = False
        """The agent opened it again: it is older than this connection."""
        self.kept: KeptThread | None = None
        """Its thread, from the first prompt on."""
        self.parent_thread = ""
        """File of the session that was handed off to it."""
        self.has_own_thread: bool | None = None
        """Whether the agent keeps threads that can be read, if it is known from the session before."""
        self.handover: Handover | None = None
        self.waiting: list[Message] = []
        """Messages of the client that wait for the end of the handover."""

    @classmethod
    def restored(cls, chain: Chain) -> "Session":
        """A session as it was kept."""
        session = cls(chain.client, chain.agent)
        session.previous = chain.previous
        session.message, session.handoff = chain.message, chain.handoff
        session.sending = chain.sending
        return session

    @property
    def chain(self) -> Chain:
        """What is kept of it."""
        return Chain(
            self.client, self.agent, self.previous, self.message, self.handoff, self.sending
        )

    def begin(self, message: str, handoff: str) -> None:
        """A new agent session is behind it, which is to be given a message."""
        self.message, self.handoff, self.sending = message, handoff, False
        self.conversation, self.kept, self.loaded = Conversation(), None, False

    def end_turn(self, stop: str) -> None:
        """A turn is over."""
        self.conversation.close(stop)
        if self.kept:
            self.kept.end_turn()

    def set(self, method: str, params: Json) -> None:
        """Remember a setting, as the newest."""
        key = (method, params.get("configId"))
        self.settings.pop(key, None)
        self.settings[key] = params


class Sessions:
    """All sessions of a connection, by the ids of both sides."""

    def __init__(self) -> None:
        self._by_client: dict[str, Session] = {}
        self._by_agent: dict[str, Session] = {}
        self._retired: set[str] = set()

    def of_client(self, id: str) -> Session | None:
        return self._by_client.get(id)

    def of_agent(self, id: str) -> Session | None:
        return self._by_agent.get(id)

    def is_retired(self, id: str) -> bool:
        """Whether an agent session is out of use: what it still tells is for nobody."""
        return id in self._retired

    def add(self, session: Session) -> Session:
        self._by_client[session.client] = session
        self._by_agent[session.agent] = session
        self._retired.discard(session.agent)
        self._retired.update(session.previous)
        return session

    def switch(self, session: Session, agent: str) -> None:
        """Put another agent session behind a session."""
        self.retire(session.agent)
        session.previous = (*session.previous, session.agent)
        session.agent = agent
        self.add(session)

    def retire(self, agent: str) -> None:
        self._by_agent.pop(agent, None)
        self._retired.add(agent)

    def remove(self, session: Session) -> None:
        self._by_client.pop(session.client, None)
        if self._by_agent.get(session.agent) is session:
            del self._by_agent[session.agent]

    def all(self) -> list[Session]:
        return list(self._by_client.values())


def setup_of(method: str, params: Json, before: Json) -> Json:
    """Parameters for another session like the one that a request opens."""
    if method == "session/new":
        return params
    return {**before, **{name: params[name] for name in SETUP if name in params}}
