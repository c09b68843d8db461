"""A thread as it is read: its entries, tool calls folded, long texts cut with a way to the whole."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape

from markupsafe import Markup, escape
from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.draft.entries import readable
from tasuki.model import Entry, Thread, ToolCall
from tasuki.plain import one_line, shown
from tasuki.threads.query import folded, is_cjk
from tasuki.threads.safe import Cleaner
from tasuki.web.pages.markdown import rendered

AT_ONCE = 100
"""Entries of one page."""
MOST_WORDS = 6000
MOST_OUTPUT = 2500
"""Characters of a message, and of a tool's output, that are shown at first."""
FOLDED_FROM = 8
"""Tool calls behind one another from which they are folded into one line."""
LOOKED_AT, SPARED = 30_000, 8_000
"""Characters of a text that are looked through for secrets, and those at their end that are not shown."""
WIDE = 160
"""Characters of a call's own line."""
ORIGINS = {
    "queued": "You, while it worked", "answer": "You, answering", "harness": "The harness",
    "command": "You, a command", "handoff": "Handoff",
}  # fmt: skip
MARK = Markup("<mark>{}</mark>")
_MARKUP = re.compile(r"(<[^>]*>)")
_BEGIN = r"(?<![^\W_])"
"""Where a word begins."""


class Shown(Struct, frozen=True):
    """One entry. `whole` is how many characters it has, where `text` is cut; else 0."""

    ref: int
    kind: str
    who: str
    text: str
    whole: int = 0
    at: str = ""
    name: str = ""
    line: str = ""
    note: str = ""
    tone: str = "muted"
    compacted: bool = False


class Run(Struct, frozen=True):
    """Tool calls that are folded into one line: `31 Read, 9 Edit`."""

    entries: tuple[Shown, ...]
    counts: str
    open: bool = False


class Part(Struct, frozen=True):
    """Some entries of a thread, and the first refs of the parts around them; 0 for none."""

    items: tuple[Shown | Run, ...]
    first: int
    last: int
    before: int
    after: int
    number: int
    of: int


def part(thread: Thread, entry: int, cleaner: Cleaner) -> Part:
    """The part of a thread that holds an entry; the newest for 0."""
    entries = thread.entries
    place = next((n for n, e in enumerate(entries) if e.ref >= entry), len(entries) - 1) if entry else len(entries) - 1  # fmt: skip
    number = max(0, place) // AT_ONCE
    start = number * AT_ONCE
    found = entries[start : start + AT_ONCE]
    made = [shown_entry(thread, e, cleaner) for e in found]
    count = (len(entries) + AT_ONCE - 1) // AT_ONCE
    return Part(
        items=tuple(_folded(made, entry)),
        first=found[0].ref if found else 0,
        last=found[-1].ref if found else 0,
        before=entries[start - AT_ONCE].ref if start else 0,
        after=entries[start + AT_ONCE].ref if start + AT_ONCE < len(entries) else 0,
        number=number + 1,
        of=max(count, 1),
    )


def shown_entry(thread: Thread, entry: Entry, cleaner: Cleaner) -> Shown:
    """One entry, without secrets."""
    if entry.tool is not None:
        return _call(entry, entry.tool, thread.cwd or "/", cleaner)
    text, whole = cut(entry.text, MOST_WORDS, cleaner)
    who = {"assistant": harnesses.get(thread.harness).title, "compaction": "Compacted"}.get(
        entry.kind, ORIGINS.get(entry.origin, "You")
    )
    own = entry.kind == "user" and entry.origin in ("typed", "queued", "answer")
    kind = "user" if own else "told" if entry.kind == "user" else entry.kind
    return Shown(
        entry.ref, kind, who, text, whole, _line(cleaner, entry.at, 40), compacted=entry.compacted
    )


def _call(entry: Entry, call: ToolCall, cwd: str, cleaner: Cleaner) -> Shown:
    text, whole = cut(readable(entry), MOST_OUTPUT, cleaner)
    line = (call.command or call.detail or " ".join(call.paths)).removeprefix(f"{cwd}/")
    note, tone = _note(call)
    return Shown(
        entry.ref, "tool", "", text, whole, _line(cleaner, entry.at, 40),
        name=_line(cleaner, call.name, 40), line=_line(cleaner, line, WIDE), note=note, tone=tone,
        compacted=entry.compacted,
    )  # fmt: skip


def _note(call: ToolCall) -> tuple[str, str]:
    """How a call ended, in a word, and its tone."""
    if call.exit_code:
        return f"exit {call.exit_code}", "fail"
    if call.status in ("error", "aborted", "refused"):
        return call.status, "fail"
    if call.status == "running":
        return "running", "run"
    if call.changes:
        added = sum(c.new.count("\n") + bool(c.new) for c in call.changes)
        taken = sum(c.old.count("\n") + bool(c.old) for c in call.changes)
        return f"+{added} −{taken}", "muted"
    lines = call.output.count("\n") + bool(call.output)
    return f"{lines} line{'s' if lines != 1 else ''}", "muted"


def cut(text: str, most: int, cleaner: Cleaner) -> tuple[str, int]:
    """The beginning of a text without secrets, and how long the whole is where that is more."""
    begin = _begin(text, cleaner)
    is_whole = len(text) <= LOOKED_AT and len(begin) <= most
    return (begin, 0) if is_whole else (begin[:most], len(text))


def _line(cleaner: Cleaner, text: str, width: int) -> str:
    return one_line(_begin(text, cleaner), width)


def _begin(text: str, cleaner: Cleaner) -> str:
    """The beginning of a text without secrets; of a long one without its end, which may be half a secret."""
    begin = cleaner.text(shown(text[:LOOKED_AT]))
    return begin[:-SPARED] if len(text) > LOOKED_AT else begin


def _folded(made: Sequence[Shown], entry: int) -> Iterator[Shown | Run]:
    run: list[Shown] = []
    for one in made:
        if one.kind == "tool":
            run.append(one)
            continue
        yield from _run(run, entry)
        run = []
        yield one
    yield from _run(run, entry)


def _run(run: list[Shown], entry: int) -> Iterator[Shown | Run]:
    if len(run) < FOLDED_FROM:
        yield from run
        return
    counts = ", ".join(f"{n} {name}" for name, n in Counter(one.name for one in run).most_common(5))
    yield Run(tuple(run), counts, any(one.ref == entry for one in run))


def marked(text: str, words: Sequence[str]) -> Markup:
    """A text with the words that were looked for marked, as the index finds them: without accents, at their beginning."""
    text = shown(text)  # what is escaped here goes into the page as it is
    made, at = [], 0
    for begin, end in _places(text, words):
        made += [escape(text[at:begin]), MARK.format(text[begin:end])]
        at = end
    return Markup("").join([*made, escape(text[at:])])


def marked_prose(text: str, words: Sequence[str]) -> Markup:
    """Markdown as HTML with the words that were looked for marked: in its text, never in its markup."""
    html = rendered(text)
    if not words:
        return html
    parts = _MARKUP.split(html)  # every other one is a tag
    parts[::2] = [marked(unescape(part), words) for part in parts[::2]]
    return Markup("".join(parts))  # noqa: S704 rendered before, and escaped again


def _places(text: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    if not words:
        return
    longest = sorted(words, key=len, reverse=True)
    pattern = "|".join(f"{'' if is_cjk(w) else _BEGIN}{re.escape(w)}" for w in longest)
    for found in re.finditer(pattern, folded(text), re.IGNORECASE):
        yield found.span()


def title_of(thread: Thread, cleaner: Cleaner) -> str:
    """What a thread is called: its name, else how it begins."""
    first = next((e.text for e in thread.entries if e.kind == "user" and e.origin == "typed"), "")
    return _line(cleaner, thread.name or first, 120) or f"Thread {one_line(thread.id, 40)}"
