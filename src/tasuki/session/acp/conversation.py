"""The messages that passed through a session, for agents whose threads tasuki cannot read."""

from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tasuki.session.acp.wire import Json, encode
from tasuki.session.agent_session.acp_updates import filter_dicts, parse_tool_fields
from tasuki.session.agent_session.backend import TextPiece, ToolProgress
from tasuki.session.agent_session.recorder import TurnRecorder
from tasuki.session.pi_store.messages import build_user_message
from tasuki.text_safety import cut_text

MOST_CHARACTERS = 8 << 20
"""Most characters that are kept of a conversation; the oldest messages go first."""
CLIP_CHARACTERS = 50_000
"""Most characters that are kept of one prompt or one tool's output."""
HANDOFF_ROLE = "handoff"
"""Role here, and type in the file, of the message from an earlier session."""
AGENT_UPDATES = ("agent_message", "agent_message_chunk")
USER_UPDATES = ("user_message", "user_message_chunk")
_PIECE_UPDATE = "tool_call_content_chunk"
_TOOL_UPDATES = ("tool_call", "tool_call_update", _PIECE_UPDATE)


def extract_text(content: object) -> str:
    """Extract the text of a content block, or of a list of them."""
    blocks = content if isinstance(content, list) else [content]
    return "".join(
        str(b.get("text") or "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"
    )


def collect_message(texts: dict[str, list[str]], update: Json) -> None:
    """Collect what the agent said, by message; a whole message replaces its pieces."""
    whole = update.get("sessionUpdate") == "agent_message"
    if whole and "content" not in update:
        return
    parts = texts.setdefault(str(update.get("messageId") or ""), [])
    if whole:
        parts.clear()
    parts.append(extract_text(update.get("content")))


class AcpConversation:
    """Prompts, answers and tool calls in pi's form, the newest `MOST_CHARACTERS` of them."""

    def __init__(self) -> None:
        self.messages: deque[Json] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self._recorder: TurnRecorder | None = None
        self._texts: dict[str, list[str]] = {}
        self._tools: dict[str, Json] = {}
        self._pending_tools: dict[str, Json] = {}
        """Tools with pieces that are not recorded yet."""
        self._replayed: list[str] = []
        self._has_prompt = False
        self.on_message: Callable[[Json], None] | None = None
        """Called with every message as soon as it is whole."""

    def copy(self) -> "AcpConversation":
        """Copy the conversation, to continue apart from this one."""
        self.end_turn()
        twin = AcpConversation()
        twin.messages, twin._sizes, twin._size = (
            self.messages.copy(),
            self._sizes.copy(),
            self._size,
        )
        return twin

    def record_prompt(self, prompt: object) -> None:
        """Record a prompt of the user."""
        self.end_turn()
        self._has_prompt = True
        self._record_user(extract_text(prompt))

    def record_handoff(self, message: str) -> None:
        """Record the message of a handoff that the session received, once."""
        self.end_turn()
        if any(m["role"] == HANDOFF_ROLE and m["content"] == message for m in self.messages):
            return
        self._keep_message({"role": HANDOFF_ROLE, "content": message})

    def record_update(self, update: Json) -> None:
        """Record an update of the agent: live, or replayed when a session was loaded."""
        kind = update.get("sessionUpdate")
        if kind in USER_UPDATES:
            if not self._has_prompt:  # Otherwise it is the prompt that is recorded already.
                if self._recorder:
                    self.end_turn()
                self._replayed.append(extract_text(update.get("content")))
        elif kind in AGENT_UPDATES:
            self._begin_turn()
            collect_message(self._texts, update)
        elif kind in _TOOL_UPDATES:
            self._begin_turn()
            self._record_tool(update)

    def end_turn(self, stop: str = "end_turn") -> None:
        """End the turn."""
        self._record_replayed()
        if self._recorder:
            self._flush_pending()
            self._recorder.end(stop)
        self._recorder, self._tools, self._has_prompt = None, {}, False

    def collect_user_text(self) -> str:
        """Collect everything that the user said."""
        self.end_turn()
        return "\n".join(
            extract_text(m.get("content")) for m in self.messages if m.get("role") == "user"
        )

    @property
    def message_count(self) -> int:
        """The number of messages."""
        self.end_turn()
        return len(self.messages)

    def write_session_file(self, cwd: str) -> Path:
        """Write all messages into a session file of pi's form. Raises StoreFailed."""
        from tasuki.session.pi_store.manager import SessionManager

        self.end_turn()
        with closing(SessionManager.create(cwd)) as manager:
            for message in self.messages:
                if message["role"] == HANDOFF_ROLE:
                    manager.append_custom_message(HANDOFF_ROLE, message["content"])
                else:
                    manager.append_message(message)
            manager.flush()
            return manager.path

    def _begin_turn(self) -> None:
        if self._recorder is None:
            self._record_replayed()
            self._recorder = TurnRecorder(self._keep_message)

    def _record_replayed(self) -> None:
        if self._replayed:
            text, self._replayed = "".join(self._replayed), []
            self._record_user(text)

    def _record_user(self, text: str) -> None:
        self._keep_message(build_user_message(cut_text(text, CLIP_CHARACTERS)))

    def _flush_pending(self) -> None:
        assert self._recorder
        tools, self._pending_tools = self._pending_tools, {}
        for id, call in tools.items():
            self._recorder.take(_build_tool(id, call))
        texts_by_message, self._texts = self._texts, {}
        for message, texts in texts_by_message.items():
            self._recorder.take(TextPiece("".join(texts), message))

    def _record_tool(self, update: Json) -> None:
        assert self._recorder
        id = str(update.get("toolCallId") or "")
        is_piece = update.get("sessionUpdate") == _PIECE_UPDATE
        if is_piece and (pending := self._tools.get(id)) is not None:
            # A command may send thousands: they are recorded with what follows.
            _add_piece(pending, update)
            self._pending_tools[id] = pending
            return
        self._flush_pending()
        call = self._tools.setdefault(id, {})
        if is_piece:
            _add_piece(call, update)
        else:
            call.update({k: v for k, v in update.items() if v is not None})
        self._recorder.take(_build_tool(id, call))

    def _keep_message(self, message: Json) -> None:
        size = len(str(message.get("content")))
        self.messages.append(message)
        self._sizes.append(size)
        self._size += size
        if self.on_message:
            self.on_message(message)
        while self._size > MOST_CHARACTERS and len(self.messages) > 2:
            self._size -= self._sizes.popleft()
            self.messages.popleft()


def _add_piece(call: Json, piece: Json) -> None:
    content = call.get("content")
    if not isinstance(content, list):
        content = call["content"] = []
    content.append(piece.get("content"))


def _build_tool(id: str, call: Json) -> ToolProgress:
    content = [c for c in filter_dicts(call.get("content")) if c.get("type") == "content"]
    output = "\n".join(extract_text(c.get("content")) for c in content)
    raw = call.get("rawOutput")
    if not output and raw:
        output = raw if isinstance(raw, str) else encode(raw).decode()
    return ToolProgress(id, **parse_tool_fields(call), output=cut_text(output, CLIP_CHARACTERS))
