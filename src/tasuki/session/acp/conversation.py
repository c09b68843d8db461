"""What passed through a session, for agents whose own threads tasuki cannot read."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasuki.session.acp.wire import Json, encode
from tasuki.session.backend import Diff, Text, Tool, ToolStatus
from tasuki.session.recording import Recorder

MOST = 8 << 20
"""Characters that are kept of a conversation; the oldest messages go first."""
CLIP = 50_000
"""Characters that are kept of one prompt or one tool's output."""
HANDOFF = "handoff"
"""Role here, and type in the file, of what an earlier session handed on."""
SAID = ("agent_message", "agent_message_chunk")
SAID_BY_USER = ("user_message", "user_message_chunk")
_PIECE = "tool_call_content_chunk"
_TOOLS = ("tool_call", "tool_call_update", _PIECE)
_STATUS: dict[object, ToolStatus] = {
    "pending": "pending", "in_progress": "in_progress", "completed": "completed", "failed": "failed",
}  # fmt: skip


def text_of(content: object) -> str:
    """The text of a content block, or of a list of them."""
    blocks = content if isinstance(content, list) else [content]
    return "".join(
        str(b.get("text") or "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"
    )


def say(texts: dict[str, list[str]], update: Json) -> None:
    """Take in what the agent said, by its messages: one that is told whole takes its pieces' place."""
    whole = update.get("sessionUpdate") == "agent_message"
    if whole and "content" not in update:
        return
    parts = texts.setdefault(str(update.get("messageId") or ""), [])
    if whole:
        parts.clear()
    parts.append(text_of(update.get("content")))


class Conversation:
    """Prompts, answers and tool calls in pi's form, the newest `MOST` characters of them."""

    def __init__(self) -> None:
        self.messages: deque[Json] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self._recorder: Recorder | None = None
        self._said: dict[str, list[str]] = {}
        self._tools: dict[str, Json] = {}
        self._grown: dict[str, Json] = {}
        """Tools of which pieces came that are not recorded yet."""
        self._replayed: list[str] = []
        self._asked = False
        self.heard: Callable[[Json], None] | None = None
        """Told of every message as soon as it is whole."""

    def copy(self) -> "Conversation":
        """The same conversation, to go on apart from this one."""
        self.close()
        twin = Conversation()
        twin.messages, twin._sizes, twin._size = (
            self.messages.copy(),
            self._sizes.copy(),
            self._size,
        )
        return twin

    def ask(self, prompt: object) -> None:
        """The user said something."""
        self.close()
        self._asked = True
        self._user(text_of(prompt))

    def hand_on(self, message: str) -> None:
        """The session was given the message of a handoff; nothing where that is recorded already."""
        self.close()
        if any(m["role"] == HANDOFF and m["content"] == message for m in self.messages):
            return
        self._keep({"role": HANDOFF, "content": message})

    def tell(self, update: Json) -> None:
        """The agent told something: live, or again when a session was loaded."""
        kind = update.get("sessionUpdate")
        if kind in SAID_BY_USER:
            if not self._asked:  # Else it is the prompt that we saw.
                if self._recorder:
                    self.close()
                self._replayed.append(text_of(update.get("content")))
        elif kind in SAID:
            self._begin()
            say(self._said, update)
        elif kind in _TOOLS:
            self._begin()
            self._tool(update)

    def close(self, stop: str = "end_turn") -> None:
        """The turn is over."""
        self._replay()
        if self._recorder:
            self._flush()
            self._recorder.end(stop)
        self._recorder, self._tools, self._asked = None, {}, False

    def user_text(self) -> str:
        """Everything that the user said."""
        self.close()
        return "\n".join(
            text_of(m.get("content")) for m in self.messages if m.get("role") == "user"
        )

    @property
    def count(self) -> int:
        """How many messages there are."""
        self.close()
        return len(self.messages)

    def write(self, cwd: str) -> Path:
        """A session file of pi's form with all of it. Raises StoreFailed."""
        from tasuki.session.manager import SessionManager

        self.close()
        with SessionManager.create(cwd) as manager:
            for said in self.messages:
                if said["role"] == HANDOFF:
                    manager.append_custom_message_entry(HANDOFF, said["content"], display=True)
                else:
                    manager.append_message(said)
            manager.flush()
            return manager.path

    def _begin(self) -> None:
        if self._recorder is None:
            self._replay()
            self._recorder = Recorder(self._keep)

    def _replay(self) -> None:
        if self._replayed:
            said, self._replayed = "".join(self._replayed), []
            self._user(said)

    def _user(self, text: str) -> None:
        from tasuki.session.messages import user_message

        self._keep(user_message(text[:CLIP]))

    def _flush(self) -> None:
        assert self._recorder
        grown, self._grown = self._grown, {}
        for id, call in grown.items():
            self._recorder.take(_tool(id, call))
        said, self._said = self._said, {}
        for message, texts in said.items():
            self._recorder.take(Text("".join(texts), message))

    def _tool(self, update: Json) -> None:
        assert self._recorder
        id = str(update.get("toolCallId") or "")
        is_piece = update.get("sessionUpdate") == _PIECE
        if is_piece and (known := self._tools.get(id)) is not None:
            _add(
                known, update
            )  # A command may tell thousands: they are recorded with what follows.
            self._grown[id] = known
            return
        self._flush()
        call = self._tools.setdefault(id, {})
        if is_piece:
            _add(call, update)
        else:
            call.update({k: v for k, v in update.items() if v is not None})
        self._recorder.take(_tool(id, call))

    def _keep(self, message: Json) -> None:
        size = len(str(message.get("content")))
        self.messages.append(message)
        self._sizes.append(size)
        self._size += size
        if self.heard:
            self.heard(message)
        while self._size > MOST and len(self.messages) > 2:
            self._size -= self._sizes.popleft()
            self.messages.popleft()


def _add(call: Json, piece: Json) -> None:
    content = call.get("content")
    if not isinstance(content, list):
        content = call["content"] = []
    content.append(piece.get("content"))


def _tool(id: str, call: Json) -> Tool:
    content = [c for c in call.get("content") or [] if isinstance(c, dict)]
    diffs = tuple(_diff(c) for c in content if c.get("type") == "diff")
    output = "\n".join(text_of(c.get("content")) for c in content if c.get("type") == "content")
    raw = call.get("rawOutput")
    if not output and raw:
        output = raw if isinstance(raw, str) else encode(raw).decode()
    arguments = call.get("rawInput")
    return Tool(
        id,
        title=str(call.get("title") or ""),
        kind=str(call.get("kind") or "other"),
        status=_STATUS.get(call.get("status"), "pending"),
        arguments=arguments if isinstance(arguments, dict) else {},
        paths=tuple(_paths(call.get("locations"))),
        diffs=diffs,
        output=output[:CLIP],
    )


def _diff(content: Json) -> Diff:
    old = content.get("oldText")
    old = old if isinstance(old, str) else None
    return Diff(str(content.get("path") or ""), old, str(content.get("newText") or ""))


def _paths(locations: Any) -> list[str]:
    found = [at.get("path") for at in locations or [] if isinstance(at, dict)]
    return [path for path in found if isinstance(path, str)]
