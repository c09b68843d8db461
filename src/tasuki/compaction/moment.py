"""A compaction in a thread: what was there before it, and what the model still has in view."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from tasuki.model import Entry, Thread
from tasuki.patterns import compile_pattern

_KEPT_IN_VIEW = compile_pattern(r"compaction #(\d+) kept in view: (#\d+(?:, #\d+)*)")
"""How the reader of Codex notes which messages a compaction kept as they were."""


class Compaction(Struct, frozen=True):
    """One compaction of a thread."""

    thread: Thread
    """The thread as it stood before the compaction, without the summaries of earlier ones."""
    ref: int
    """The entry with the summary; 0 where the thread does not hold it yet."""
    summary: str
    """What the harness put in the place of the past; empty where that is not known."""
    in_view: str = ""
    """What the harness kept as it was, and the model still has in view, besides the summary."""
    instructions: str = ""
    """What the user asked the summary to keep; only the summary may quote it."""

    ends: dict[str, int] = {}
    """Byte offset of the summary in the file that holds it: what follows proves nothing."""

    @property
    def said(self) -> str:
        """Everything that the model has in view after the compaction."""
        return f"{self.summary}\n{self.in_view}"


def find_last_compaction(thread: Thread, instructions: str = "") -> Compaction | None:
    """Return the newest compaction of a thread, None if there is none."""
    last = next((e for e in reversed(thread.entries) if e.kind == "compaction"), None)
    if last is None:
        return None
    before = [e for e in thread.entries if e.ref < last.ref]
    kept = set(range(last.kept_from, last.ref)) if last.kept_from else set()
    for notice in thread.notices:  # What the harness kept as it was.
        match = _KEPT_IN_VIEW.match(notice.text) if notice.after == last.ref else None
        if match and int(match[1]) == last.ref:
            kept.update(int(ref[1:]) for ref in match[2].split(", "))
    first = min(kept, default=last.ref)
    notes = [
        n.text for n in thread.notices if n.kind == "context" and first - 1 <= n.after < last.ref
    ]
    in_view = "\n".join([*(e.text for e in before if e.ref in kept), *(notes if kept else ())])
    ends = {thread.sources[last.source]: last.offset} if last.offset and thread.sources else {}
    cut = cut_thread(thread, before)
    return Compaction(cut, last.ref, last.text, in_view, instructions, ends)


def build_coming_compaction(
    thread: Thread, summary: str = "", instructions: str = ""
) -> Compaction:
    """Return the compaction that comes next in a thread; `summary` where it is known already."""
    cut, first = cut_thread(thread, thread.entries), thread.keeps_from
    kept = [e.text for e in cut.entries if first and e.ref >= first]
    words = [e.text for e in cut.entries if e.is_prompt]
    if sum(map(len, words)) <= thread.keeps_words:
        kept += words
    return Compaction(cut, 0, summary, "\n".join(kept), instructions)


def cut_thread(thread: Thread, entries: Iterable[Entry]) -> Thread:
    """Return a thread of some entries, without summaries: these say what a harness made of it."""
    own = tuple(e for e in entries if e.kind != "compaction")
    last = own[-1].ref if own else 0
    background = tuple(b for b in thread.background if b.ref <= last)
    return replace(thread, entries=own, background=background)
