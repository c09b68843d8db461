"""Which messages of a Gemini CLI session are in view, and which ones are copies of others.

When the list of messages is replaced, or written again after a refusal, the same messages
come again under other ids, some of them joined. They are found by their text.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from tasuki.harness.gemini import format as record


class ViewedMessage(Struct, eq=False):
    """A message of the session, and the entries it created."""

    text: str = ""
    """Its text as the model received it."""
    type: str = ""
    calls: set[str] = set()
    entries: list[int] = []
    prompt: bool = False
    """Whether the user typed it."""


class ParsedMessage(Struct, gc=False):
    """A message as it came, with its content in parts."""

    message: record.GeminiMessage
    parts: list[record.GeminiPart]
    texts: list[str]
    context: bool = False
    """Whether it begins with the context of a session's start."""
    calls: tuple[str, ...] = ()
    text: str = ""
    """Its text."""
    summary: bool = False
    """Whether it is the summary that a compaction put in place of the earlier messages."""


def parse_message(message: record.GeminiMessage) -> ParsedMessage:
    """Parse a message into its parts."""
    content = message.content
    calls = tuple(c.id for c in message.toolCalls) if message.toolCalls else ()
    if isinstance(content, str) and message.type != "user":
        return ParsedMessage(message, [], [content] if content else [], False, calls, content)
    parts = record.list_parts(content)
    context = bool(parts) and (parts[0].text or "").startswith(record.CONTEXT)
    exchanges = (p.functionCall or p.functionResponse for p in parts)
    calls += tuple(d.id for d in exchanges if d is not None and d.id)
    texts = record.list_texts(parts)
    text = "".join(texts)
    summary = message.type == "user" and text.lstrip().startswith(record.SNAPSHOT)
    return ParsedMessage(message, parts, texts, context, calls, text, summary)


def find_copies(
    view: Sequence[ViewedMessage],
    messages: Sequence[ParsedMessage],
    nodes: Sequence[ViewedMessage | None],
) -> list[list[ViewedMessage]]:
    """Find what a list repeats, if it only writes the messages before it a second time.

    Gemini CLI wrote the history again, message by message, and then put the copies in place
    of the originals. Empty if that is not what happened.
    """
    start = len(view) - len(nodes)
    if start < len(nodes) or any(a is not b for a, b in zip(nodes, view[start:], strict=True)):
        return []
    finder = CopyFinder(view[:start])
    originals = [finder.find_originals(message) for message in messages]
    return originals if nodes and all(originals) else []


class CopyFinder:
    """Finds the messages that a list repeats, one after the other."""

    def __init__(self, nodes: Sequence[ViewedMessage]) -> None:
        self.nodes = nodes
        self.position = 0
        self._places = {id(node): i for i, node in enumerate(nodes)}
        self._by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._by_call: dict[tuple[str, str], int] = {}
        for i, node in enumerate(nodes):
            if node.text:
                self._by_text[node.type, node.text].append(i)
            for call in node.calls:
                self._by_call.setdefault((node.type, call), i)

    def pass_node(self, node: ViewedMessage) -> None:
        """Move on to after a message that is itself in view."""
        self.position = max(self.position, self._places.get(id(node), -1) + 1)

    def find_originals(self, parsed: ParsedMessage, last: bool = False) -> list[ViewedMessage]:
        """Find the messages that one repeats, with `last` the newest of each; none if it is new."""
        kind = parsed.message.type
        places = [p for c in parsed.calls if (p := self._by_call.get((kind, c), -1)) >= 0]
        if not places and (place := self._find_place(kind, parsed.text, last)) >= 0:
            places = [place]
        if not places and len(parsed.texts) > 1:
            tails = ("".join(parsed.texts[i:]) for i in range(1, len(parsed.texts)))
            wanted = (*parsed.texts, *tails)
            places = [p for t in wanted if (p := self._find_place(kind, t, last)) >= 0]
        if places:
            self.position = max(self.position, max(places) + 1)
        return [self.nodes[p] for p in sorted(set(places))]

    def _find_place(self, kind: str, text: str, last: bool) -> int:
        places = self._by_text.get((kind, text), ())
        if last:
            return places[-1] if places else -1
        next_one = bisect_left(places, self.position)
        return places[next_one] if next_one < len(places) else -1
