"""Sub-agents and background commands: how calls start them, and what reports their ends."""

from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.reading.unread import add_output
from tasuki.model import Background, ToolCall
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

_WHERE = compile_pattern(
    r"\bhttps?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d{2,5})?[^\s\"'<>)\]]*"
    r"|\b(?:port|PORT)[ :=]{1,2}\d{2,5}\b"
)
_LOG = compile_pattern(
    r"(?:[Oo]utput is being written to: |[Ll]og(?: file)?: |<output-file>)([^\s<>]+[^\s<>.,])"
)
MOST_PLACES = 3


class BackgroundLog:
    """Sub-agents and background commands as they start and end while a thread is read."""

    def __init__(self) -> None:
        self._items: dict[str, Background] = {}
        self._aliases: dict[str, str] = {}
        self._calls: dict[str, ToolCall] = {}

    def add_alias(self, id: str, alias: str) -> None:
        """Record that a running item has another id from now on; its end may carry either."""
        self._aliases[alias] = id

    def find_item(self, id: str) -> Background | None:
        """Return what has this id, also by another of its ids."""
        return self._items.get(self._aliases.get(id, id))

    def record_start(
        self, id: str, kind: str, label: str, ref: int, call: ToolCall | None = None
    ) -> None:
        """Record that something began to run in the background; `call` is the command that did."""
        if id and id not in self._items:
            label = cut_text(" ".join(label.split()), 200)
            of = "agent" if kind == "agent" else "command"
            self._items[id] = Background(id, of, label, "running", ref)  # type: ignore[arg-type]
            if call:
                self._calls[id] = call

    def record_output(self, id: str, text: str, keep: int = 0) -> None:
        """Record where a command serves and logs, as far as it was printed.

        With `keep`, the text is more output of the command, and is added to its call.
        """
        item = self.find_item(id) if text else None
        if item is None or item.kind == "agent":
            return
        printed = text[:20_000]
        found = [
            place.rstrip("/.,") for place in (*_WHERE.findall(printed), *_LOG.findall(printed))
        ]
        places = tuple(dict.fromkeys((*item.places, *found)))[:MOST_PLACES]
        self._items[item.id] = replace(item, places=places)
        if keep and (call := self._calls.get(item.id)):
            add_output(call, text, keep)

    def record_end(self, id: str, failed: bool = False, code: int | None = None) -> None:
        """Record that it ended, and how: `code` is the exit code of a command."""
        if item := self.find_item(id):
            failed = bool(code) if code is not None else failed
            self._items[item.id] = replace(item, state="failed" if failed else "done")
            if (call := self._calls.get(item.id)) and call.status == "running":
                put(call, "status", "error" if failed else "ok" if code == 0 else "unknown")
                put(call, "exit_code", code)

    def rename(self, id: str, name: str) -> None:
        """Record the name under which something that runs is known; without one it never began."""
        item = self._items.pop(id, None)
        if item and name:
            self._items[name] = replace(item, id=name, state="running")

    def record_stop(self, id: str) -> None:
        """Record that the agent or the user ended it before its own end."""
        if item := self.find_item(id):
            self._items[item.id] = replace(item, state="done")
            if (call := self._calls.get(item.id)) and call.status == "running":
                put(call, "status", "aborted")

    def list_items(self) -> tuple[Background, ...]:
        """Return all of them, in the order they began."""
        return tuple(self._items.values())
