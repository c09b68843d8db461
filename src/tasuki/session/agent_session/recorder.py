"""Records the events of a turn as messages of a session file, in pi's form."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.session.agent_session.backend import BackendEvent, FileDiff, TextPiece, ToolProgress
from tasuki.session.pi_store import messages
from tasuki.session.pi_store.messages import Json

TOOL_NAMES = {
    "execute": "bash", "read": "read", "edit": "edit", "search": "grep", "fetch": "fetch",
}  # fmt: skip
"""Pi's name of a tool, by the protocol's kind."""
MOST_OUTPUT_CHARACTERS = 200_000
"""Most characters of one tool's output that are kept."""
_COMMANDS = ("command", "cmd", "script")
_ENDED_STATUSES = ("completed", "failed")
_STOP_REASONS = {"end_turn": "stop", "cancelled": "aborted", "max_tokens": "length",
            "max_turn_requests": "length", "refusal": "error"}  # fmt: skip


class _MessageGroup(Struct):
    """One message of the assistant, with the tools it called, by id."""

    blocks: list[list[str]] = []
    """The pieces of each text block: joined once, because an answer may have a million."""
    message: str = ""
    tools: dict[str, ToolProgress] = {}

    @property
    def texts(self) -> list[str]:
        return ["".join(pieces) for pieces in self.blocks]

    @property
    def has_ended(self) -> bool:
        return all(tool.status in _ENDED_STATUSES for tool in self.tools.values())


class TurnRecorder(Struct, eq=False):
    """Turns the events of one turn into messages; `on_message` gets each as soon as it is whole."""

    on_message: Callable[[Json], object]
    provider: str = ""
    _groups: list[_MessageGroup] = []
    _calling_groups: dict[str, _MessageGroup | None] = {}
    """The message that calls each tool; None once it is kept, and no longer changes."""
    _last_text: str = ""

    def take(self, event: BackendEvent) -> None:
        """Take an event of the agent."""
        if isinstance(event, TextPiece):
            self._take_text(event)
        elif isinstance(event, ToolProgress):
            self._take_tool(event)

    def end(self, stop: str, error: str = "") -> None:
        """End the turn: keep what is left. A tool that never ended has no result."""
        if not self._groups:
            self._groups.append(_MessageGroup())
        reason = "error" if error else _STOP_REASONS.get(stop, "stop")
        while self._groups:
            self._keep_first(reason if len(self._groups) == 1 else "toolUse", error)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines, of the newest message of the turn."""
        return "\n".join(self._groups[-1].texts) if self._groups else self._last_text

    def _take_text(self, event: TextPiece) -> None:
        if not event.text:
            return
        if not self._groups or self._groups[-1].tools:
            self._groups.append(_MessageGroup())
            self._keep_ended()
        group = self._groups[-1]
        if not group.blocks or (event.message and event.message != group.message):
            group.blocks.append([])
        group.message = event.message
        group.blocks[-1].append(event.text)

    def _take_tool(self, event: ToolProgress) -> None:
        if event.id not in self._calling_groups:
            if not self._groups:
                self._groups.append(_MessageGroup())
            self._calling_groups[event.id] = self._groups[-1]
        if group := self._calling_groups[event.id]:
            group.tools[event.id] = event

    def _keep_ended(self) -> None:
        """Keep the messages before the newest one, up to the first whose tools still run."""
        while len(self._groups) > 1 and self._groups[0].has_ended:
            self._keep_first("toolUse")

    def _keep_first(self, reason: str, error: str = "") -> None:
        group = self._groups.pop(0)
        self._calling_groups.update(dict.fromkeys(group.tools))
        texts = group.texts
        self._last_text = "\n".join(texts)
        content = [messages.build_text_block(text) for text in texts]
        tools = [single for tool in group.tools.values() for single in _split_by_file(tool)]
        content += [
            # The arguments of pi's own tool are added to the agent's.
            messages.build_tool_call(t.id, _choose_name(t), {**t.arguments, **_derive_arguments(t)})
            for t in tools
        ]
        self.on_message(
            messages.build_assistant_message(
                content, provider=self.provider, stop=reason, error=error
            )
        )
        for tool in tools:
            if tool.status in _ENDED_STATUSES:
                output = tool.output[:MOST_OUTPUT_CHARACTERS]
                is_failed = tool.status == "failed"
                self.on_message(
                    messages.build_tool_result(tool.id, _choose_name(tool), output, error=is_failed)
                )


def _split_by_file(tool: ToolProgress) -> list[ToolProgress]:
    """Split a call into one for each file that a tool changed: a call of pi's tools changes one."""
    paths = list(dict.fromkeys(diff.path for diff in tool.diffs))
    if len(paths) < 2:
        return [tool]
    return [
        replace(
            tool,
            id=f"{tool.id}:{n}" if n else tool.id,
            diffs=tuple(d for d in tool.diffs if d.path == path),
        )
        for n, path in enumerate(paths)
    ]


def _choose_name(tool: ToolProgress) -> str:
    if tool.kind == "edit" and tool.diffs and all(diff.old is None for diff in tool.diffs):
        return "write"
    return TOOL_NAMES.get(tool.kind, tool.kind)


def _derive_arguments(tool: ToolProgress) -> Json:
    if tool.kind == "execute":
        values = (tool.arguments.get(name) for name in _COMMANDS)
        command = next((c for c in values if isinstance(c, str) and c), tool.title.strip("`"))
        return {"command": command}
    if tool.kind == "edit":
        return _build_edit_arguments(tool.diffs, tool.paths)
    if tool.kind == "read" and tool.paths:
        return {"path": tool.paths[0]}
    return {} if tool.arguments else {"title": tool.title}


def _build_edit_arguments(diffs: Sequence[FileDiff], paths: Sequence[str]) -> Json:
    path = diffs[0].path if diffs else next(iter(paths), "")
    if diffs and all(diff.old is None for diff in diffs):
        return {"path": path, "content": diffs[0].new}
    edits = [{"oldText": diff.old or "", "newText": diff.new} for diff in diffs]
    return {"path": path, "edits": edits} if path else {}
