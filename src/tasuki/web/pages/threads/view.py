"""A thread for reading: its entries, tool calls folded, long texts cut with a link to the whole."""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from markupsafe import Markup, escape
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.text.entries import format_entry
from tasuki.harness import registry as harnesses
from tasuki.model import Entry, Thread, ToolCall
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.threads.passages import EntryCleaner
from tasuki.threads.query import fold_accents, is_cjk
from tasuki.web.views.markdown import render_markdown
from tasuki.web.views.templates import parse_moment

MOST_MESSAGE_CHARACTERS = 6000
MOST_OUTPUT_CHARACTERS = 2500
"""Most characters of a message, and of a tool's output, that are shown at first."""
CHECKED_CHARACTERS, HIDDEN_CHARACTERS = 30_000, 8_000
"""Characters of a text checked for secrets, and those at their end that are not shown."""
CALL_LINE_CHARACTERS = 160
"""Most characters of a call's own line."""
ORIGIN_NAMES = {
    "queued": "You, while it worked", "answer": "You, answering", "harness": "The harness",
    "command": "You, a command", "handoff": "Handoff", "channel": "You, from a chat", "plan": "A plan you approved",
}  # fmt: skip
MARK_TEMPLATE = Markup("<mark>{}</mark>")
_MARKUP = compile_pattern(r"(<[^>]*>)")
_BEGIN = r"(?<![^\W_])"
"""Where a word begins."""


class ShownEntry(Struct, frozen=True, tag="entry"):
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
    moment: float | None = None
    """When it was written, in seconds since 1970; None where its harness does not say."""


def show_entry(thread: Thread, entry: Entry, cleaner: EntryCleaner) -> ShownEntry:
    """Show one entry, without secrets."""
    if (call := entry.tool) is not None:
        text, whole = cut_text(format_entry(entry), MOST_OUTPUT_CHARACTERS, cleaner)
        line = call.command or call.detail or " ".join(call.paths)
        note, tone = _describe_result(call)
        shown = ShownEntry(
            entry.ref, "tool", "", text, whole, name=_clean_line(cleaner, call.name, 40), note=note, tone=tone,
            line=_clean_line(cleaner, line.removeprefix(f"{thread.cwd or '/'}/"), CALL_LINE_CHARACTERS),
        )  # fmt: skip
    else:
        text, whole = cut_text(entry.text, MOST_MESSAGE_CHARACTERS, cleaner)
        names = {
            "assistant": harnesses.get_harness(thread.harness).title,
            "compaction": "Compacted",
        }
        speaker = names.get(entry.kind, ORIGIN_NAMES.get(entry.origin, "You"))
        kind = "user" if entry.is_by_hand else "told" if entry.kind == "user" else entry.kind
        shown = ShownEntry(entry.ref, kind, speaker, text, whole)
    at = _clean_line(cleaner, entry.at, 40)
    return replace(shown, at=at, compacted=entry.compacted, moment=parse_moment(entry.at))


def _describe_result(call: ToolCall) -> tuple[str, str]:
    """Describe how a call ended, in a word, and its tone."""
    if call.exit_code:
        return f"exit {call.exit_code}", "fail"
    if call.status in ("error", "aborted", "refused"):
        return call.status, "fail"
    if call.status == "running":
        return "running", "run"
    if call.changes:
        added = sum(c.new.count("\n") + bool(c.new) for c in call.changes)
        removed = sum(c.old.count("\n") + bool(c.old) for c in call.changes)
        return f"+{added} −{removed}", "muted"
    lines = call.output.count("\n") + bool(call.output)
    return f"{lines} line{'s' if lines != 1 else ''}", "muted"


def cut_text(text: str, most: int, cleaner: EntryCleaner) -> tuple[str, int]:
    """Cut a text without secrets to a length; also return its whole length where that is more."""
    begin = _clean_beginning(text, cleaner)
    is_whole = len(text) <= CHECKED_CHARACTERS and len(begin) <= most
    return (begin, 0) if is_whole else (begin[:most], len(text))


def _clean_line(cleaner: EntryCleaner, text: str, width: int) -> str:
    return shorten_to_line(_clean_beginning(text, cleaner), width)


def _clean_beginning(text: str, cleaner: EntryCleaner) -> str:
    """Clean the beginning of a text of secrets.

    A long text loses its end, which may be half a secret.
    """
    begin = cleaner.clean_text(text[:CHECKED_CHARACTERS])
    return begin[:-HIDDEN_CHARACTERS] if len(text) > CHECKED_CHARACTERS else begin


def mark_words(text: str, words: Sequence[str], *, anywhere: bool = False) -> Markup:
    """Mark the searched words in a text as the index finds them.

    That is: without accents, at the beginning of a word; `anywhere`: also within one.
    """
    text = clean_for_display(text)  # the escaped text goes into the page unchanged
    parts, position = [], 0
    for begin, end in _find_places(text, words, anywhere=anywhere):
        parts += [escape(text[position:begin]), MARK_TEMPLATE.format(text[begin:end])]
        position = end
    return Markup("").join([*parts, escape(text[position:])])


def mark_words_in_prose(text: str, words: Sequence[str], *, anywhere: bool = False) -> Markup:
    """Render Markdown with the searched words marked: in its text, never in its markup."""
    html = render_markdown(text)
    if not words:
        return html
    parts = _MARKUP.split(html)  # every other one is a tag
    parts[::2] = [mark_words(unescape(part), words, anywhere=anywhere) for part in parts[::2]]
    return Markup("".join(parts))  # noqa: S704 rendered before, and escaped again


def _find_places(text: str, words: Sequence[str], *, anywhere: bool) -> Iterator[tuple[int, int]]:
    if not words:
        return
    longest = sorted(words, key=len, reverse=True)
    begins = ["" if anywhere or is_cjk(word) else _BEGIN for word in longest]
    pattern = "|".join(f"{b}{re.escape(w)}" for b, w in zip(begins, longest, strict=True))
    for match in re.finditer(pattern, fold_accents(text), re.IGNORECASE):
        yield match.span()


def build_title(thread: Thread, cleaner: EntryCleaner) -> str:
    """Build the title of a thread: its name, else its beginning."""
    first = next((e.text for e in thread.entries if e.is_prompt), "")
    title = _clean_line(cleaner, thread.name or first, 120)
    return title or f"Thread {shorten_to_line(thread.id, 40)}"
