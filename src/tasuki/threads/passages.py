"""Passages of a thread that match some words, and entries made safe to leave the program.

Secrets are redacted, and nothing that moves a cursor is left.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.text.entries import format_entry
from tasuki.draft.text.split import extract_terms, shorten
from tasuki.model import Entry, EntryKind, FileChange, Origin, Todo, ToolCall
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.threads.query import fold_accents, is_cjk, split_tokens


class EntryCleaner:
    """Cleans the entries of one answer; a secret that was found once is known in all of them."""

    def __init__(self) -> None:
        self._redactor = QuoteRedactor()

    def learn_entries(self, shown: Iterable[Entry], entries: Iterable[Entry]) -> None:
        """Look what the entries of a thread say of the words of those that are shown alone."""
        self._redactor.open_entries(entries)
        self._redactor.learn_document("\n".join(map(format_entry, shown)))

    def clean_text(self, text: str) -> str:
        """Return a text without secrets and control characters."""
        return self._redactor.redact(clean_for_display(text)) if text else text

    def clean_entry(self, entry: Entry) -> Entry:
        """Return an entry with every text in it cleaned."""
        tool = self._clean_call(entry.tool) if entry.tool else None
        return replace(
            entry, text=self.clean_text(entry.text), at=self.clean_line(entry.at, 40), tool=tool
        )

    def clean_line(self, text: str, width: int = 400) -> str:
        """Return a short text, such as a folder or a time, on one line."""
        return shorten_to_line(self.clean_text(text), width)

    def _clean_call(self, call: ToolCall) -> ToolCall:
        fields = {name: getattr(call, name) for name in ToolCall.__struct_fields__}
        cleaned = {
            "output": self.clean_text(call.output),  # first, for it may name what the command holds
            "command": self.clean_text(call.command),
            "detail": self.clean_text(call.detail),
            "paths": tuple(map(self.clean_text, call.paths)),
            "changes": tuple(
                FileChange(
                    self.clean_text(c.path), c.kind, self.clean_text(c.old), self.clean_text(c.new)
                )
                for c in call.changes
            ),
            "todos": call.todos
            and tuple(Todo(self.clean_text(t.text), t.status) for t in call.todos),
        }
        return ToolCall(**{**fields, **cleaned})  # Without what only reads an output later.


LINES = 3
"""Matching lines of one thread that are shown."""
LINE = 200
"""Characters of a matching line that are shown, around its first match."""
PASSAGE = 700
"""Characters of one passage of an answer."""
WEIGHTS = {"user": 1.25, "assistant": 1.15, "compaction": 0.7, "tool": 0.8, "document": 0.8}
"""Weights of kinds: words of people and agents count more than what a program printed."""
LONGER_WORD_WEIGHT = 0.4
"""Weight of a longer word that begins with the wanted one."""
MAX_TERMS = 40
"""The number of terms of a question that are searched, from its start."""
NOTABLE_SHARE = 0.55
"""Share of the best score from which a later passage is worth showing."""


class Passage(Struct, frozen=True):
    """A piece of one entry, unchanged except for the cuts at its ends."""

    ref: int
    kind: EntryKind
    origin: Origin
    at: str
    text: str
    score: float


def find_matching_lines(
    entries: Sequence[Entry],
    words: Sequence[str],
    cleaner: EntryCleaner,
    of: Sequence[Entry],
) -> list[Passage]:
    """Find the lines that hold most of some words, at most one an entry, in the thread's order.

    `of` are all entries of the thread. Whole entries are cleaned, before anything is cut.
    """
    wanted = [w for word in words if (w := split_tokens(word))]
    patterns = [_build_pattern(parts) for parts in wanted]
    scored = [
        (score, entry)
        for entry in entries
        if (score := _find_best_line(entry, wanted, patterns)[0]) > 0
    ]
    best = sorted(scored, key=lambda pair: (-pair[0], -pair[1].ref))[: 2 * LINES]
    cleaner.learn_entries((entry for _, entry in best), of)
    chosen: dict[str, Passage] = {}
    for score, entry in best:
        _, match_start, line = _find_best_line(cleaner.clean_entry(entry), wanted, patterns)
        if line:
            passage = _build_passage(entry, _cut_around(line, match_start), score)
            chosen.setdefault(_normalize_gist(passage.text), passage)
    return sorted(list(chosen.values())[:LINES], key=lambda passage: passage.ref)


def _find_best_line(
    entry: Entry, wanted: Sequence[list[str]], patterns: Sequence[re.Pattern[str]]
) -> tuple[float, int, str]:
    """Return the score of an entry's best line, where its first match is, and the line."""
    best: tuple[float, int, str] = (0.0, 0, "")
    for text, weight in _list_texts(entry):
        low = fold_accents(text).lower()
        if not any(parts[0] in low for parts in wanted):
            continue
        for line in text.splitlines():
            plain = fold_accents(line)
            hits = [m for p in patterns if (m := p.search(plain))]
            score = sum(1.0 if m["end"] is not None else LONGER_WORD_WEIGHT for m in hits) * weight
            score -= 0.0002 * min(len(line), 1000)
            if hits and score > best[0]:
                best = (score, hits[0].start(), line)
    return best


def find_passages(
    entries: Sequence[Entry],
    question: str,
    cleaner: EntryCleaner,
    limit: int = 6,
    of: Sequence[Entry] = (),
) -> list[Passage]:
    """Find the passages that say most about a question, in the order of the thread.

    Later ones may retract what earlier ones say; so the newest that is nearly as good as the
    best is always among them. Empty if no word of the question occurs. `of` are all entries of
    the thread; whole entries are cleaned, before anything is cut.
    """
    weights = _extract_stems(question)
    pieces = [(entry, piece) for entry in entries for piece in _split_pieces(entry)]
    lows = [fold_accents(piece).lower() for _, piece in pieces]
    term_values = {
        term: math.sqrt(weight) * math.log1p(len(lows) / (1 + count))
        for term, weight in weights.items()
        if (count := sum(term in low for low in lows))
    }
    scored = [
        (score, entry, piece)
        for (entry, piece), low in zip(pieces, lows, strict=True)
        if (score := _score_text(low, term_values) * WEIGHTS[entry.kind]) > 0
    ]
    best: dict[int, tuple[float, Entry]] = {}
    seen: set[str] = set()
    for score, entry, piece in sorted(scored, key=lambda s: (-s[0], -s[1].ref)):
        gist = _normalize_gist(piece)
        if gist not in seen and entry.ref not in best:
            best[entry.ref] = (score, entry)
            seen.add(gist)
    if not best:
        return []
    top = max(score for score, _ in best.values())
    chosen = list(best)[:limit]
    newest = max(ref for ref, (score, _) in best.items() if score >= NOTABLE_SHARE * top)
    if newest not in chosen:
        chosen[-1] = newest
    cleaner.learn_entries((best[ref][1] for ref in chosen), of or entries)
    answers = (
        _build_answer(cleaner.clean_entry(best[ref][1]), term_values, best[ref][0])
        for ref in sorted(chosen)
    )
    return [answer for answer in answers if answer]


def _build_answer(entry: Entry, term_values: Mapping[str, float], score: float) -> Passage | None:
    """Build a passage from the best piece of an entry that is already clean.

    None where the words of the question were secrets: that they are in the thread is not confirmed.
    """
    pieces = list(_split_pieces(entry)) or [""]
    scores = [_score_text(fold_accents(piece).lower(), term_values) for piece in pieces]
    text = pieces[scores.index(max(scores))]
    return (
        _build_passage(entry, _cut_around_terms(text, term_values), score) if any(scores) else None
    )


def _extract_stems(question: str) -> dict[str, float]:
    """Return the terms of a question without endings, so that `timeouts` finds `timeout`."""
    stems: dict[str, float] = {}
    question = fold_accents(unicodedata.normalize("NFC", question))
    for term, weight in list(extract_terms(question).items())[:MAX_TERMS]:
        stem = re.sub(r"(?:ing|ed|es|s)$", "", term) if term.isalpha() and len(term) > 5 else term
        stems[stem if len(stem) >= 4 else term] = weight
    if not stems or any(map(is_cjk, question)):
        parts = split_tokens(question)  # of a script without blanks: pairs of its characters
        pairs = [a + b for a, b in pairwise(parts) if is_cjk(a) and is_cjk(b)]
        stems |= dict.fromkeys((pairs or parts)[:MAX_TERMS], 1.0)
    return stems


def _score_text(low: str, term_values: Mapping[str, float]) -> float:
    hits = [w for term, w in term_values.items() if term in low]
    if not hits:
        return 0.0
    return sum(hits) * (1 + 0.25 * (len(hits) - 1)) / math.log2(8 + len(low) / 200)


def _list_texts(entry: Entry) -> Iterator[tuple[str, float]]:
    call = entry.tool
    if call is None:
        yield entry.text, WEIGHTS[entry.kind]
        return
    yield call.command or call.detail or " ".join(call.paths), 1.0
    for change in call.changes:
        yield f"{change.path}\n{change.new or change.old}", 0.9
    yield "\n".join(todo.text for todo in call.todos or ()), 0.9
    yield call.output, WEIGHTS["tool"]


def _split_pieces(entry: Entry) -> Iterator[str]:
    """Split an entry into passages: its paragraphs, joined while they are short."""
    for text, _ in _list_texts(entry):
        piece = ""
        for paragraph in re.split(r"\n\s*\n", text):
            for start in range(0, len(paragraph), PASSAGE * 2):
                part = paragraph[start : start + PASSAGE * 2]
                if piece and len(piece) + len(part) > PASSAGE:
                    yield piece
                    piece = ""
                piece = f"{piece}\n\n{part}" if piece else part
        if piece.strip():
            yield piece


def _cut_around_terms(text: str, term_values: Mapping[str, float]) -> str:
    if len(text) > PASSAGE:
        low = fold_accents(text).lower()
        starts = [start for term in term_values if (start := low.find(term)) >= 0]
        start = max(min(starts, default=0) - PASSAGE // 4, 0)
        if start:
            start = text.find(" ", start) + 1 or start
        text = ("… " if start else "") + shorten(text[start:], PASSAGE)
    return text.strip("\n")


def _build_passage(entry: Entry, text: str, score: float) -> Passage:
    return Passage(entry.ref, entry.kind, entry.origin, entry.at, text, round(score, 3))


def _normalize_gist(text: str) -> str:
    """Return what two passages with the same content have in common."""
    return " ".join(text.lower().split())[:300]


def _build_pattern(parts: Sequence[str]) -> re.Pattern[str]:
    """Build a pattern for a word or phrase: its parts with anything but letters between them.

    The group `end` is present if the last part is a whole word.
    """
    words = re.escape(parts[0])
    for before, part in pairwise(parts):
        joined = r"[\W_]*" if is_cjk(before) and is_cjk(part) else r"[\W_]+"
        words += joined + re.escape(part)
    start = "" if is_cjk(parts[0]) else r"(?<![^\W_])"
    end = "" if is_cjk(parts[-1]) else r"(?![^\W_])"
    return re.compile(rf"{start}{words}(?P<end>{end})?", re.IGNORECASE)


def _cut_around(line: str, position: int) -> str:
    """Cut a line so that a position is in view."""
    if len(line.strip()) <= LINE:
        return line.strip()
    start = max(position - LINE // 3, 0)
    return (("… " if start else "") + shorten(line[start:].strip(), LINE)).strip()
