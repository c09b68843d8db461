"""A turn that the proxy itself runs in an agent's session, and the text that comes of it."""

import asyncio

from tasuki.errors import AuthorFailed
from tasuki.session.acp.conversation import SAID, SAID_BY_USER, say
from tasuki.session.acp.replies import INTERNAL
from tasuki.session.acp.wire import Json, Message

_REFUSED = ("fs/write_text_file", "terminal/")
REFUSED = "Refused: the session writes a handoff document, and nothing else meanwhile."


class Turn:
    """One question of ours. Version 1 ends it with the answer, version 2 when the session is idle.

    The text is that of the agent's messages after its last tool call: what it said before is talk.
    Gemini CLI tells of a call that is refused by the question for permission alone.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason why it stopped."""
        self.over.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._begun = False
        self._texts: dict[str, list[str]] = {}
        self._calls: set[str] = set()

    def answered(self, answer: "asyncio.Future[Message]") -> None:
        """The agent answered the question itself."""
        if self.over.done() or answer.cancelled():
            return
        if error := answer.exception():
            self.over.set_exception(error)
            return
        message = answer.result()
        if message.failed:
            said = message.body.get("error")
            text = said.get("message") if isinstance(said, dict) else said
            self.over.set_exception(AuthorFailed(f"The agent answered with an error: {text}."))
        elif self.version >= 2:
            self._begun = True  # The next idle is its end.
        else:
            self.over.set_result(str(message.result.get("stopReason") or "end_turn"))

    def fail(self, error: Exception) -> None:
        """It will not end by itself any more."""
        if not self.over.done():
            self.over.set_exception(error)

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, ("".join(parts) for parts in self._texts.values())))

    def hear(self, update: Json) -> bool:
        """Take in an update; whether the client is to see it too."""
        kind = update.get("sessionUpdate")
        if kind in SAID:
            say(self._texts, update)
        elif kind in ("tool_call", "tool_call_update"):
            self._call(str(update.get("toolCallId") or ""))
        elif kind == "state_update":
            self._state(update)
        return kind not in SAID_BY_USER and kind != "state_update"

    def refuse(self, request: Message) -> Json | None:
        """The answer that refuses what the agent asks for, None for what it may have.

        A tool is refused this once. An option that would refuse it for good is not ours to take.
        """
        if request.method == "session/request_permission":
            answer: Json = {"result": {"outcome": _refusal(request.params.get("options"))}}
        elif request.method.startswith(_REFUSED):
            answer = {"error": {"code": INTERNAL, "message": REFUSED}}
        else:
            return None
        self._texts.clear()
        return answer

    def _call(self, id: str) -> None:
        if id not in self._calls:
            self._calls.add(id)
            self._texts.clear()

    def _state(self, update: Json) -> None:
        state = update.get("state")
        if state == "running":
            self._begun = True
        elif state == "idle" and self._begun and not self.over.done():
            self.over.set_result(str(update.get("stopReason") or "end_turn"))


def _refusal(options: object) -> Json:
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("kind") == "reject_once":
            return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}
