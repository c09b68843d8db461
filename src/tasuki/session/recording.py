"""From what an agent tells in a turn to the messages that a session file keeps, in pi's form."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.session import messages
from tasuki.session.backend import BackendEvent, Diff, Text, Tool
from tasuki.session.messages import Json

TOOL_NAMES = {
    "execute": "bash", "read": "read", "edit": "edit", "search": "grep", "fetch": "fetch",
}  # fmt: skip
"""Pi's name of a tool, by the protocol's kind."""
MAX_OUTPUT = 200_000
"""Characters of one tool's output that are kept."""
_COMMANDS = ("command", "cmd", "script")
_ENDED = ("completed", "failed")
_REASONS = {"end_turn": "stop", "cancelled": "aborted", "max_tokens": "length",
            "max_turn_requests": "length", "refusal": "error"}  # fmt: skip


class _Group(Struct):
    """One message of the assistant, with the tools it called, by id."""

    blocks: list[list[str]] = []
    """The pieces of each text block: joined once, since an answer may come in a million of them."""
    message: str = ""
    tools: dict[str, Tool] = {}

    @property
    def texts(self) -> list[str]:
        return ["".join(pieces) for pieces in self.blocks]

    @property
    def ended(self) -> bool:
        return all(tool.status in _ENDED for tool in self.tools.values())


class Recorder:
    """Turns the events of one turn into messages; `keep` is given each as soon as it is whole."""

    def __init__(self, keep: Callable[[Json], object], provider: str = "", model: str = "") -> None:
        self.keep = keep
        self.provider = provider
        self.model = model
        self._groups: list[_Group] = []
        self._calling: dict[str, _Group | None] = {}
        """The message that calls each tool; None once it is kept, and no longer changes."""
        self._last_text = ""

    def take(self, event: BackendEvent) -> None:
        """Take in what the agent told."""
        if isinstance(event, Text):
            self._text(event)
        elif isinstance(event, Tool):
            self._tool(event)

    def end(self, stop: str, error: str = "") -> None:
        """The turn is over: keep what is left. A tool that never ended has no result."""
        if not self._groups:
            self._groups.append(_Group())
        reason = "error" if error else _REASONS.get(stop, "stop")
        while self._groups:
            self._keep_first(reason if len(self._groups) == 1 else "toolUse", error)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines, of the newest message of the turn."""
        return "\n".join(self._groups[-1].texts) if self._groups else self._last_text

    def _text(self, event: Text) -> None:
        if not event.text:
            return
        if not self._groups or self._groups[-1].tools:
            self._groups.append(_Group())
            self._keep_ended()
        group = self._groups[-1]
        if not group.blocks or (event.message and event.message != group.message):
            group.blocks.append([])
        group.message = event.message
        group.blocks[-1].append(event.text)

    def _tool(self, event: Tool) -> None:
        if event.id not in self._calling:
            if not self._groups:
                self._groups.append(_Group())
            self._calling[event.id] = self._groups[-1]
        if group := self._calling[event.id]:
            group.tools[event.id] = event

    def _keep_ended(self) -> None:
        """Keep the messages before the newest one, up to the first whose tools still run."""
        while len(self._groups) > 1 and self._groups[0].ended:
            self._keep_first("toolUse")

    def _keep_first(self, reason: str, error: str = "") -> None:
        group = self._groups.pop(0)
        self._calling.update(dict.fromkeys(group.tools))
        texts = group.texts
        self._last_text = "\n".join(texts)
        content = [messages.text_block(text) for text in texts]
        tools = [single for tool in group.tools.values() for single in _singles(tool)]
        content += [_call(tool) for tool in tools]
        self.keep(
            messages.assistant_message(
                content, provider=self.provider, model=self.model, stop=reason, error=error
            )
        )
        for tool in tools:
            if tool.status in _ENDED:
                output = tool.output[:MAX_OUTPUT]
                failed = tool.status == "failed"
                self.keep(messages.tool_result(tool.id, _name(tool), output, error=failed))


def _singles(tool: Tool) -> list[Tool]:
    """A call for each file that a tool changed: a call of pi's tools changes one."""
    paths = list(dict.fromkeys(diff.path for diff in tool.diffs))
    if len(paths) < 2:
        return [tool]
    return [
        replace(tool, id=f"{tool.id}:{n}" if n else tool.id,
                diffs=tuple(d for d in tool.diffs if d.path == path))
        for n, path in enumerate(paths)
    ]  # fmt: skip


def _name(tool: Tool) -> str:
    if tool.kind == "edit" and tool.diffs and all(diff.old is None for diff in tool.diffs):
        return "write"
    return TOOL_NAMES.get(tool.kind, tool.kind)


def _call(tool: Tool) -> Json:
    """The call with the arguments that pi's own tool would have, and the agent's beside them."""
    return messages.tool_call(tool.id, _name(tool), {**tool.arguments, **_known(tool)})


def _known(tool: Tool) -> Json:
    if tool.kind == "execute":
        given = (tool.arguments.get(name) for name in _COMMANDS)
        command = next((c for c in given if isinstance(c, str) and c), tool.title.strip("`"))
        return {"command": command}
    if tool.kind == "edit":
        return _edited(tool.diffs, tool.paths)
    if tool.kind == "read" and tool.paths:
        return {"path": tool.paths[0]}
    return {} if tool.arguments else {"title": tool.title}


def _edited(diffs: Sequence[Diff], paths: Sequence[str]) -> Json:
    path = diffs[0].path if diffs else next(iter(paths), "")
    if diffs and all(diff.old is None for diff in diffs):
        return {"path": path, "content": diffs[0].new}
    edits = [{"oldText": diff.old or "", "newText": diff.new} for diff in diffs]
    return {"path": path, "edits": edits} if path else {}
