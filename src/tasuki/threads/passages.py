"""The passages of a thread that have to do with some words: for a search, and for a question."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from tasuki.draft.text import shorten, terms
from tasuki.model import Entry, EntryKind, Origin
from tasuki.threads.query import folded, is_cjk, tokens

LINE = 200
"""Characters of a matching line that are shown, around its first match."""
PASSAGE = 700
"""Characters of one passage of an answer."""
WEIGHTS: Mapping[str, float] = {"user": 1.25, "assistant": 1.15, "compaction": 0.7, "tool": 0.8}
"""Whose words count more: what was said before what a program printed."""
LONGER = 0.4
"""What a longer word that begins with the one looked for counts."""
MAX_TERMS = 40
"""Terms of a question that are looked for, the first ones."""
TELLING = 0.55
"""Share of the best score from which on a later passage is worth pointing at."""


class Passage(Struct, frozen=True):
    """A piece of one entry, to the letter but for what was cut at its ends."""

    ref: int
    kind: EntryKind
    origin: Origin
    at: str
    text: str
    score: float


Clean = Callable[[Entry], Entry]
"""Takes secrets out of an entry. It is applied to whole entries, before anything is cut: half a
secret could not be recognised."""


def matching_lines(
    entries: Iterable[Entry], words: Sequence[str], clean: Clean, limit: int = 3
) -> list[Passage]:
    """The lines that hold most of some words, at most one an entry, in the order of the thread."""
    wanted = [w for word in words if (w := tokens(word))]
    patterns = [_pattern(parts) for parts in wanted]
    found = [
        (score, entry) for entry in entries if (score := _best_line(entry, wanted, patterns)[0]) > 0
    ]
    chosen: list[Passage] = []
    for score, entry in sorted(found, key=lambda pair: (-pair[0], -pair[1].ref))[: 2 * limit]:
        _, at, line = _best_line(clean(entry), wanted, patterns)
        if line:
            chosen.append(_passage(entry, _around(line, at), score))
    return sorted(_distinct(chosen)[:limit], key=_ref)


def _best_line(
    entry: Entry, wanted: Sequence[list[str]], patterns: Sequence[re.Pattern[str]]
) -> tuple[float, int, str]:
    """Score of the best line of an entry, where its first match stands, and the line."""
    best: tuple[float, int, str] = (0.0, 0, "")
    for text, weight in _texts(entry):
        low = folded(text).lower()
        if not any(parts[0] in low for parts in wanted):
            continue
        for line in text.splitlines():
            plain = folded(line)
            hits = [m for p in patterns if (m := p.search(plain))]
            score = sum(1.0 if m["end"] is not None else LONGER for m in hits) * weight
            score -= 0.0002 * min(len(line), 1000)
            if hits and score > best[0]:
                best = (score, hits[0].start(), line)
    return best


def answers(entries: Sequence[Entry], question: str, clean: Clean, limit: int = 6) -> list[Passage]:
    """The passages that say most about a question, in the order of the thread.

    Later ones may take back what earlier ones say; so the newest that is nearly as good as the
    best is always among them. Empty if no word of the question occurs.
    """
    weights = _stems(question)
    pieces = [(entry, piece) for entry in entries for piece in _pieces(entry)]
    lows = [folded(piece).lower() for _, piece in pieces]
    worth = {
        term: math.sqrt(weight) * math.log1p(len(lows) / (1 + count))
        for term, weight in weights.items()
        if (count := sum(term in low for low in lows))
    }
    scored = [
        (score, entry, piece)
        for (entry, piece), low in zip(pieces, lows, strict=True)
        if (score := _score(low, worth) * WEIGHTS[entry.kind]) > 0
    ]
    best: dict[int, tuple[float, Entry]] = {}
    seen: set[str] = set()
    for score, entry, piece in sorted(scored, key=lambda s: (-s[0], -s[1].ref)):
        said = _gist(piece)
        if said not in seen and entry.ref not in best:
            best[entry.ref] = (score, entry)
            seen.add(said)
    if not best:
        return []
    top = max(score for score, _ in best.values())
    chosen = list(best)[:limit]
    newest = max(ref for ref, (score, _) in best.items() if score >= TELLING * top)
    if newest not in chosen:
        chosen[-1] = newest
    return [_answer(clean(best[ref][1]), worth, best[ref][0]) for ref in sorted(chosen)]


def _answer(entry: Entry, worth: Mapping[str, float], score: float) -> Passage:
    """The best piece of an entry that is clean already."""
    pieces = list(_pieces(entry)) or [""]
    text = max(pieces, key=lambda piece: _score(folded(piece).lower(), worth))
    return _passage(entry, _cut(text, worth), score)


def _stems(question: str) -> dict[str, float]:
    """The terms of a question without endings, so that `timeouts` finds `timeout`."""
    found: dict[str, float] = {}
    question = folded(unicodedata.normalize("NFC", question))
    for term, weight in list(terms(question).items())[:MAX_TERMS]:
        stem = re.sub(r"(?:ing|ed|es|s)$", "", term) if term.isalpha() and len(term) > 5 else term
        found[stem if len(stem) >= 4 else term] = weight
    if not found or _is_other_script(question):
        found |= dict.fromkeys(_runs(question)[:MAX_TERMS], 1.0)
    return found


def _score(low: str, worth: Mapping[str, float]) -> float:
    hits = [w for term, w in worth.items() if term in low]
    if not hits:
        return 0.0
    return sum(hits) * (1 + 0.25 * (len(hits) - 1)) / math.log2(8 + len(low) / 200)


def _texts(entry: Entry) -> Iterator[tuple[str, float]]:
    """The texts of an entry with their weights."""
    call = entry.tool
    if call is None:
        yield entry.text, WEIGHTS[entry.kind]
        return
    yield call.command or call.detail or " ".join(call.paths), 1.0
    for change in call.changes:
        yield f"{change.path}\n{change.new or change.old}", 0.9
    yield "\n".join(todo.text for todo in call.todos or ()), 0.9
    yield call.output, WEIGHTS["tool"]


def _pieces(entry: Entry) -> Iterator[str]:
    """An entry in passages: its paragraphs, joined while they are short."""
    for text, _ in _texts(entry):
        held = ""
        for paragraph in re.split(r"\n\s*\n", text):
            for start in range(0, len(paragraph), PASSAGE * 2):
                part = paragraph[start : start + PASSAGE * 2]
                if held and len(held) + len(part) > PASSAGE:
                    yield held
                    held = ""
                held = f"{held}\n\n{part}" if held else part
        if held.strip():
            yield held


def _cut(text: str, worth: Mapping[str, float]) -> str:
    """A long passage around what it is about."""
    if len(text) > PASSAGE:
        low = folded(text).lower()
        starts = [at for term in worth if (at := low.find(term)) >= 0]
        at = max(min(starts, default=0) - PASSAGE // 4, 0)
        if at:
            at = text.find(" ", at) + 1 or at
        text = ("… " if at else "") + shorten(text[at:], PASSAGE)
    return text.strip("\n")


def _passage(of: Entry, text: str, score: float) -> Passage:
    return Passage(of.ref, of.kind, of.origin, of.at, text, round(score, 3))


def _distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Without what was said already in the same words."""
    seen: set[str] = set()
    kept = []
    for passage in passages:
        said = _gist(passage.text)
        if said not in seen:
            seen.add(said)
            kept.append(passage)
    return kept


def _gist(text: str) -> str:
    """What two passages that say the same share."""
    return " ".join(text.lower().split())[:300]


def _pattern(parts: Sequence[str]) -> re.Pattern[str]:
    """A word or phrase as it may stand in a line: its parts with anything but letters between.

    The group `end` is there if the last part is a whole word.
    """
    words = re.escape(parts[0])
    for before, part in pairwise(parts):
        joined = r"[\W_]*" if is_cjk(before) and is_cjk(part) else r"[\W_]+"
        words += joined + re.escape(part)
    start = "" if is_cjk(parts[0]) else r"(?<![^\W_])"
    end = "" if is_cjk(parts[-1]) else r"(?![^\W_])"
    return re.compile(rf"{start}{words}(?P<end>{end})?", re.IGNORECASE)


def _is_other_script(text: str) -> bool:
    return any(map(is_cjk, text))


def _runs(text: str) -> list[str]:
    """Words, and two neighbouring characters of a script that has no blanks."""
    parts = tokens(text)
    pairs = [a + b for a, b in pairwise(parts) if is_cjk(a) and is_cjk(b)]
    return pairs or parts


def _around(line: str, at: int) -> str:
    """A line cut so that the place `at` is in view."""
    if len(line.strip()) <= LINE:
        return line.strip()
    start = max(at - LINE // 3, 0)
    return (("… " if start else "") + shorten(line[start:].strip(), LINE)).strip()


def _ref(passage: Passage) -> int:
    return passage.ref
