"""What the last calls of a thread read and printed: it fills the room that is left in a brief."""

from collections.abc import Iterator, Mapping

from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.rank.guides import clean_document
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.text.entries import strip_colours
from tasuki.draft.text.language_cues import orders_agents
from tasuki.draft.text.tokens import measure_text
from tasuki.model import Entry, Item, Thread, ToolCall

MIN_OUTPUT, MAX_OUTPUT = 80, 1_200
"""Characters of an output that is worth quoting, and of it that are quoted."""
NEWEST_CALLS = 60
GOAL_WEIGHT = 1.0
"""What an output that holds the goal's words is worth besides a newer one."""
MARK = "[…]"


def list_printed(
    thread: Thread, relevance: Relevance, names: Mapping[str, str], room: int
) -> list[Item]:
    """Return outputs of the newest calls in `room` characters, in the order of time.

    The newest ones and those that hold the goal's words are chosen; of a file that was read
    several times, the last reading. `names` are short names of paths.
    """
    found: dict[str, tuple[float, Entry, str]] = {}
    for entry in [e for e in thread.entries if e.tool][-NEWEST_CALLS:]:
        call = entry.tool
        if call is None or len(call.output) < MIN_OUTPUT or orders_agents(call.output):
            continue
        if label := _name_call(call, names):
            near = relevance.measure_overlap(call.output[:20_000])
            worth = relevance.measure_recency(entry.ref) + GOAL_WEIGHT * near
            found[label] = (worth, entry, label)
    chosen: list[Item] = []
    for _, entry, label in sorted(found.values(), key=lambda one: -one[0]):
        assert entry.tool
        text = cut_middle(clean_document(strip_colours(entry.tool.output)), MAX_OUTPUT)
        cost = measure_text(text) + 2 * text.count("\n") + len(label) + 16
        if cost <= room and "\n" in text:
            room -= cost
            chosen.append(Item(text=text, refs=(entry.ref,), label=label))
    return sorted(chosen, key=lambda item: item.refs)


def _name_call(call: ToolCall, names: Mapping[str, str]) -> str:
    """Return what a call read or ran; empty for what tells nothing by its output."""
    if call.status in ("refused", "aborted", "running"):
        return ""
    if call.kind == "read" and call.paths:
        return f"Read `{names.get(call.paths[0], call.paths[0])}`"
    if call.kind in ("shell", "search") and call.command:
        return f"Printed by `{shorten_command(call.command, 100).replace('`', '')}`"
    return ""


def cut_middle(text: str, limit: int) -> str:
    """Return a text without the lines in the middle that are too many, and without empty ones."""
    lines = list(_list_lines(text))
    if sum(map(len, lines)) + len(lines) <= limit:
        return "\n".join(lines)
    head: list[str] = []
    tail: list[str] = []
    for part, source in ((head, iter(lines)), (tail, reversed(lines))):
        left = limit // 2
        for line in source:
            left -= len(line) + 1
            if left < 0:
                break
            part.append(line)
    return "\n".join([*head, MARK, *reversed(tail)])


def _list_lines(text: str) -> Iterator[str]:
    yield from (line.rstrip()[:300] for line in text.split("\n") if line.strip())
