"""What the client says while a handoff is under way: what cancels it, and what waits for its end."""

from typing import TYPE_CHECKING

from tasuki.session.acp import commands
from tasuki.session.acp.replies import CANCELLED
from tasuki.session.acp.sessions import Session
from tasuki.session.acp.wire import Id, Message

if TYPE_CHECKING:
    from tasuki.session.acp.proxy import Proxy

ENDERS = ("session/close", "session/delete")
BUSY = "Handoff not started: a turn is still running. Wait for its end, or cancel it."
UNDER_WAY = "Handoff not started: one is under way."


def cancels(proxy: "Proxy", message: Message, session: Session | None) -> bool:
    """Whether a message was a cancellation of something that the proxy does itself."""
    if message.method == "session/cancel" and session and session.handover:
        session.handover.cancel()
        if message.is_request:
            proxy.replies.result(message.id, {})
        return True
    if message.method == "$/cancel_request":
        wanted = message.params.get("requestId")
        return any(_cancelled(proxy, one, wanted) for one in proxy.sessions.all())
    return False


def _cancelled(proxy: "Proxy", session: Session, wanted: Id) -> bool:
    """Whether a request was a session's `/handoff`, or waited for its end."""
    if session.handover and session.handover.prompt.id == wanted:
        session.handover.cancel()
        return True
    for waiting in session.waiting:
        if waiting.is_request and waiting.id == wanted:
            session.waiting.remove(waiting)
            proxy.replies.error(waiting.id, "Cancelled before it was sent.", CANCELLED)
            return True
    return False


def waits(proxy: "Proxy", message: Message, session: Session) -> bool:
    """Whether a message has to wait for the end of the handoff, or leads to nothing.

    Prompts wait, and once the new session opens everything that could change the old one. What ends
    the session ends the handoff first.
    """
    handover = session.handover
    if not handover:
        return False
    if message.method == "session/prompt":
        text = commands.first_text(message.params.get("prompt"))
        if commands.focus_of(text) is not None:
            proxy.replies.refuse(session, message, UNDER_WAY)
            return True
    ends = message.method in ENDERS
    if ends:
        handover.cancel()
    if ends or message.method == "session/prompt" or handover.switching:
        session.waiting.append(message)
        return True
    return False
