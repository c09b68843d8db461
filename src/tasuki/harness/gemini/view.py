"""Which messages of a Gemini CLI session are in view, and which ones are copies of others.

When the list of messages is replaced, or written anew after a refusal, the same messages come
again under other ids, some of them joined. They are found by what they say.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tasuki.harness.gemini.format import (
    CONTEXT,
    SNAPSHOT,
    Message,
    Part,
    parts_of,
    texts_of,
)


class Node(Struct, eq=False):
    """A message of the session, and the entries it gave rise to."""

    said: str = ""
    """Its text as the model got it."""
    type: str = ""
    calls: set[str] = set()
    entries: list[int] = []
    prompt: bool = False
    """Whether the user typed it."""


class Look(Struct, gc=False):
    """A message as it came, with its content in parts."""

    message: Message
    parts: list[Part]
    texts: list[str]
    context: bool = False
    """Whether it begins with the context at a session's start."""
    calls: tuple[str, ...] = ()
    said: str = ""
    """Its text."""
    summary: bool = False
    """Whether it is the summary that a compaction put in place of what came before."""


def look(message: Message) -> Look:
    """A message, taken apart."""
    content = message.content
    calls = tuple(c.id for c in message.toolCalls) if message.toolCalls else ()
    if isinstance(content, str) and message.type != "user":
        return Look(message, [], [content] if content else [], False, calls, content)
    parts = parts_of(content)
    context = bool(parts) and (parts[0].text or "").startswith(CONTEXT)
    done = (p.functionCall or p.functionResponse for p in parts)
    calls += tuple(d.id for d in done if d is not None and d.id)
    texts = texts_of(parts)
    said = "".join(texts)
    summary = message.type == "user" and said.lstrip().startswith(SNAPSHOT)
    return Look(message, parts, texts, context, calls, said, summary)


class View:
    """The messages in view, in order."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def set(self, nodes: Iterable[Node]) -> None:
        """Other messages are in view now; each of them once."""
        self.nodes = list({id(node): node for node in nodes}.values())

    def finder(self) -> "Finder":
        """A search through what is in view now, from its beginning."""
        return Finder(self.nodes)

    def cut(self, node: Node) -> list[Node]:
        """Take out a message and all that follow it; all of them if it is not in view."""
        at = next((i for i, n in enumerate(self.nodes) if n is node), 0)
        gone = self.nodes[at:]
        del self.nodes[at:]
        return gone

    def cut_all(self) -> list[Node]:
        """Take out all messages."""
        gone, self.nodes = self.nodes, []
        return gone

    def copies(self, looks: Sequence[Look], known: Sequence[Node | None]) -> list[list[Node]]:
        """What a list repeats, if it holds nothing but a second writing of the messages before.

        Gemini CLI wrote the history again, message by message, and then put the copies in place
        of the originals. Empty if that is not what happened.
        """
        start = len(self.nodes) - len(known)
        if start < len(known) or any(
            a is not b for a, b in zip(known, self.nodes[start:], strict=True)
        ):
            return []
        finder = Finder(self.nodes[:start])
        found = [finder.copied(seen) for seen in looks]
        return found if known and all(found) else []


class Finder:
    """Finds the messages that a list repeats, one after the other."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.at = 0
        self._places = {id(node): i for i, node in enumerate(nodes)}
        self._by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._by_call: dict[tuple[str, str], int] = {}
        for i, node in enumerate(nodes):
            if node.said:
                self._by_text[node.type, node.said].append(i)
            for call in node.calls:
                self._by_call.setdefault((node.type, call), i)

    def known(self, node: Node) -> list[Node]:
        """A message that is itself in view: it goes on behind it."""
        place = self._places.get(id(node), -1)
        self.at = max(self.at, place + 1)
        return [node]

    def copied(self, seen: Look, last: bool = False) -> list[Node]:
        """The messages that one repeats; none if it is new. With `last`, the newest of each."""
        kind = seen.message.type
        places = [p for c in seen.calls if (p := self._by_call.get((kind, c), -1)) >= 0]
        if not places and (place := self._place(kind, seen.said, last)) >= 0:
            places = [place]
        if not places and len(seen.texts) > 1:
            tails = ("".join(seen.texts[i:]) for i in range(1, len(seen.texts)))
            wanted = (*seen.texts, *tails)
            places = [p for t in wanted if (p := self._place(kind, t, last)) >= 0]
        if places:
            self.at = max(self.at, max(places) + 1)
        return [self.nodes[p] for p in sorted(set(places))]

    def _place(self, kind: str, text: str, last: bool) -> int:
        places = self._by_text.get((kind, text), ())
        if last:
            return places[-1] if places else -1
        next_one = bisect_left(places, self.at)
        return places[next_one] if next_one < len(places) else -1
