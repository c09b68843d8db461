"""What the proxy itself says to the client, in either version of the protocol."""

import uuid
from collections.abc import Callable

from tasuki.session.acp import commands
from tasuki.session.acp.sessions import Session
from tasuki.session.acp.wire import Id, Json, Message, line

INTERNAL = -32603
INVALID = -32600
CANCELLED = -32800
AGENT_ENDED = "_agent_ended"
"""Reason of our own why a turn of version 2 ended; the draft leaves such names to implementations."""


class Replies:
    """Writes to the client. In version 1 the answer ends a turn; in version 2 it acknowledges the
    prompt, and an idle state ends the turn."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send
        self.version = 1

    def update(self, session: Session, kind: str, **fields: object) -> None:
        """One `session/update`."""
        params = {"sessionId": session.client, "update": {"sessionUpdate": kind, **fields}}
        self.send(line({"method": "session/update", "params": params}))

    def say(self, session: Session, text: str) -> None:
        """A message of its own."""
        content = {"type": "text", "text": text}
        self.update(session, "agent_message_chunk", messageId=str(uuid.uuid4()), content=content)

    def offer(self, session: Session) -> None:
        """The commands that there are, with ours."""
        offered = commands.offered(session.commands, self.version)
        self.update(session, "available_commands_update", availableCommands=offered)

    def result(self, id: Id, result: Json) -> None:
        self.send(line({"id": id, "result": result}))

    def error(self, id: Id, text: str, code: int = INTERNAL) -> None:
        self.send(line({"id": id, "error": {"code": code, "message": text}}))

    def begin(self, session: Session, prompt: Message) -> None:
        """The prompt is taken."""
        if self.version >= 2:
            self.result(prompt.id, {})
            content = prompt.params.get("prompt")
            self.update(session, "user_message", messageId=str(uuid.uuid4()), content=content)
            self.update(session, "state_update", state="running")

    def end(self, session: Session, prompt: Message, stop: str, meta: Json) -> None:
        """The turn of a prompt is over."""
        told = {"stopReason": stop, "_meta": {"tasuki": meta}}
        if self.version >= 2:
            self.update(session, "state_update", state="idle", **told)
        else:
            self.result(prompt.id, told)

    def fail(self, session: Session, prompt: Message, text: str) -> None:
        """The turn of a prompt ended with an error."""
        if self.version >= 2:
            self.update(session, "state_update", state="idle", stopReason=AGENT_ENDED)
        else:
            self.error(prompt.id, text)

    def refuse(self, session: Session, prompt: Message, text: str) -> None:
        """A prompt leads to nothing but a message, while another turn goes on."""
        if self.version >= 2:
            self.result(prompt.id, {})
            self.say(session, text)
        else:
            self.say(session, text)
            self.result(prompt.id, {"stopReason": "end_turn"})
