"""What happens when a session of the client is opened: new, loaded, resumed or forked."""

from typing import TYPE_CHECKING

from tasuki.errors import AgentFailed
from tasuki.session.acp.sessions import Session, setup_of
from tasuki.session.acp.wire import Json, Message, line, with_result_session

if TYPE_CHECKING:
    from tasuki.session.acp.proxy import Asked, Proxy

UNCERTAIN = (
    "It is not known whether the last handoff reached this session, so it is not sent again. "
    "If the agent does not know of it, paste it: tasuki show {} --brief"
)
ENOUGH = 200
"""Characters by which a message is known again."""


def answered(proxy: "Proxy", message: Message, asked: "Asked") -> None:
    """The agent's answer to a request that opens a session."""
    if message.failed:
        _failed(proxy, message, asked)
    elif asked.method == "session/fork":
        _forked(proxy, message, asked)
    elif asked.method == "session/new":
        _made(proxy, message, asked.params)
    else:
        assert asked.session
        asked.session.setup = setup_of(asked.method, asked.params, asked.session.setup)
        show(proxy, asked.session, with_result_session(message, asked.session.client)
             if "sessionId" in message.result else message.raw)  # fmt: skip


def _failed(proxy: "Proxy", message: Message, asked: "Asked") -> None:
    session = asked.session
    if asked.fresh and session and session.message and not session.sending:
        proxy.start(_again(proxy, message, asked, session))
        return
    if asked.fresh and session:
        proxy.sessions.remove(session)
    elif session:
        session.open = True
    proxy.to_client(message.raw)


async def _again(proxy: "Proxy", message: Message, asked: "Asked", session: Session) -> None:
    """Open another session where the newest cannot be loaded: it has had no prompt yet.

    Agents write a session down with its first prompt; what this one was to begin with is kept here.
    """
    setup = setup_of(asked.method, asked.params, session.setup)
    proxy.hold(+1)
    try:
        opened = await proxy.ours.ask("session/new", setup)
    except AgentFailed:
        opened = message
    finally:
        proxy.hold(-1)
    agent = opened.opened
    if agent is None:
        proxy.sessions.remove(session)
        proxy.to_client(message.raw)
        return
    session.setup = setup
    proxy.sessions.switch(session, agent)
    proxy.delivery.keep(session)
    result: Json = {k: v for k, v in opened.result.items() if k != "sessionId"}
    show(proxy, session, line({"id": message.id, "result": result}))


def _made(proxy: "Proxy", message: Message, params: Json) -> None:
    agent = message.opened
    if agent is None:
        proxy.to_client(message.raw)
        return
    session = proxy.sessions.add(Session(agent, agent))
    session.setup = params
    show(proxy, session, message.raw)


def _forked(proxy: "Proxy", message: Message, asked: "Asked") -> None:
    """A fork knows what its origin knows, and begins with the message that is not delivered yet."""
    agent, origin = message.opened, asked.session
    if agent is None:
        proxy.to_client(message.raw)
        return
    session = proxy.sessions.add(Session(agent, agent))
    session.setup = setup_of(asked.method, asked.params, origin.setup if origin else {})
    if origin:
        session.settings = dict(origin.settings)
        session.conversation = origin.conversation.copy()
        if origin.message and not origin.sending:
            session.message, session.handoff = origin.message, origin.handoff
            proxy.delivery.keep(session)
    show(proxy, session, message.raw)


def show(proxy: "Proxy", session: Session, answer: bytes) -> None:
    """Give the client the answer, then what the agent told of the session, then the commands."""
    proxy.to_client(answer)
    proxy.let_go(session.agent)
    session.open = True
    proxy.replies.offer(session)
    if session.sending:
        _settle(proxy, session)


def _settle(proxy: "Proxy", session: Session) -> None:
    """Whether a message arrived that was under way when the proxy ended: the replay tells, or nothing."""
    if session.message[:ENOUGH] in session.conversation.user_text():
        proxy.delivery.arrived(session)
    else:
        proxy.replies.say(session, UNCERTAIN.format(session.handoff[:8]))
        proxy.delivery.unknown(session)
