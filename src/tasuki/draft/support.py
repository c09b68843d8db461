"""Whether entries of a thread speak of what a sentence says, measured by the words they share."""

import math
import re
from collections.abc import Mapping, Sequence

from tasuki.draft.entries import entry_text
from tasuki.draft.text import STOP_WORDS, WORD, identifiers
from tasuki.model import Entry

CITED = 0.3
"""Share of a sentence's words that a text must hold to bear it."""
RARE = 0.2
"""Share of a sentence's rare words that the entries it cites, or their neighbours, must hold."""
FOUND = 0.35
"""Share of them that one entry must hold to be cited in the author's stead."""
LOOKED_THROUGH = 2_000
"""Newest entries in which support is looked for."""
CHARACTERS = 6_000
"""Of an entry that nobody cites, both ends together."""
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
_SCRIPTS = tuple(
    re.compile(f"[{letters}]")
    for letters in (
        "A-Za-z", "\u0370-\u03ff", "\u0400-\u052f", "\u0590-\u05ff", "\u0600-\u06ff", "\u0900-\u0dff", "\u0e00-\u0eff",
        "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff", "\uac00-\ud7af",
    )
)  # fmt: skip
"""Latin, Greek, Cyrillic, Hebrew, Arabic, those of India, Thai and Lao, Chinese and Japanese, Korean."""
_ENGLISH = re.compile(r"\b(?:the|and|to|of|is|for|that|it|was|with|this|not)\b", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(?:der|die|das|und|ist|nicht|ein|eine|mit|für|les|des|une|est|pas|pour|dans|avec|el|los|las|que|una|por|para"
    r"|het|een|niet|voor|não|uma|che|nie|jest|się|что|не|это|для)\b",
    re.IGNORECASE,
)


def telling(text: str) -> dict[str, float]:
    """The stems of a sentence that tell what it is about, with weights: names 2, words 1."""
    found: dict[str, float] = {}
    for name in identifiers(text):
        found[name.lower().strip("`")] = 2.0
    for match in WORD.finditer(text):
        word = match[0].lower()
        if word not in STOP_WORDS and not _EAST_ASIAN.search(word):
            found.setdefault(word[:6] if len(word) > 6 else word.removesuffix("s"), 1.0)
    for run in _EAST_ASIAN.findall(text):
        for at in range(len(run) - 1):
            found.setdefault(run[at : at + 2], 1.0)
    return found


class Support:
    """Looks up in one thread what sentences rest on."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.at = {entry.ref: n for n, entry in enumerate(entries)}
        self._texts: dict[int, str] = {}
        self._holding: dict[str, frozenset[int]] = {}

    def resolve(self, text: str, refs: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """The entries a sentence rests on; none, and the reason, where it rests on nothing.

        Refs that exist are kept if they, or what stands right beside them, share enough of its
        words; else, and where none were given, the entry that shares most is taken.
        """
        weights = telling(text)
        known = tuple(r for r in refs if r in self.at)
        if known and self._bears(text, weights, known):
            return known, ""
        if found := self._found(weights):
            return found, ""
        if known:
            return (), "the entries it cites do not speak of this"
        if refs:
            return (), "it cites entries that do not exist"
        return (), "it cites no entry, and none speaks of this"

    def _bears(self, text: str, weights: Mapping[str, float], refs: Sequence[int]) -> bool:
        beside = {n for r in refs for n in range(self.at[r] - 1, self.at[r] + 2)}
        hay = "\n".join(self._whole(n) for n in sorted(beside) if 0 <= n < len(self.entries))
        own = "\n".join(self._whole(self.at[r]) for r in refs)
        if _other_language(text, own):
            return _named(weights, hay)
        return _speaks_of(weights, hay) and _share(self._by_rarity(weights), hay) >= RARE

    def _found(self, weights: Mapping[str, float]) -> tuple[int, ...]:
        """The entry that holds most of the rare words, the newest of equals."""
        if sum(weights.values()) < 4:
            return ()
        rare = self._by_rarity(weights)
        held: dict[int, float] = {}
        for stem, weight in rare.items():
            for n in self._having(stem):
                held[n] = held.get(n, 0.0) + weight
        best = max(((weight, n) for n, weight in held.items()), default=(0.0, 0))
        return (self.entries[best[1]].ref,) if best[0] >= FOUND * sum(rare.values()) else ()

    def _by_rarity(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Stems with their weights, more for those that few entries hold."""
        among = min(len(self.entries), LOOKED_THROUGH) + 1
        return {
            stem: weight * math.log(among / (len(self._having(stem)) + 0.5))
            for stem, weight in weights.items()
        }

    def _having(self, stem: str) -> frozenset[int]:
        """The newest entries that hold a stem."""
        if stem not in self._holding:
            first = max(0, len(self.entries) - LOOKED_THROUGH)
            looked = range(first, len(self.entries))
            self._holding[stem] = frozenset(n for n in looked if stem in self._text(n))
        return self._holding[stem]

    def _whole(self, n: int) -> str:
        return entry_text(self.entries[n]).lower()

    def _text(self, n: int) -> str:
        if n not in self._texts:
            text = entry_text(self.entries[n])
            half = CHARACTERS // 2
            text = text if len(text) <= CHARACTERS else f"{text[:half]}\n{text[-half:]}"
            self._texts[n] = text.lower()
        return self._texts[n]


def bears(text: str, hay: str) -> bool:
    """Whether a text speaks of what a sentence says."""
    weights = telling(text)
    if _other_language(text, hay):
        return _named(weights, hay.lower())
    return _speaks_of(weights, hay.lower())


def _speaks_of(weights: Mapping[str, float], hay: str) -> bool:
    return sum(weights.values()) < 2 or _share(weights, hay) >= CITED


def _share(weights: Mapping[str, float], hay: str) -> float:
    whole = sum(weights.values())
    return sum(w for stem, w in weights.items() if stem in hay) / whole if whole else 1.0


def _named(weights: Mapping[str, float], hay: str) -> bool:
    """Whether a text holds some of a sentence's names: of another language, words cannot be compared."""
    named = [stem for stem, weight in weights.items() if weight > 1]
    return not named or sum(name in hay for name in named) * 3 >= len(named)


def _other_language(text: str, hay: str) -> bool:
    """Whether a sentence and its entries are in different languages, so that words cannot be compared."""
    sample = hay[:8_000]
    own, others = _scripts(text, 3), _scripts(sample, 3)
    if own != others:
        return bool(own - others) or (not own and bool(_scripts(sample, 8)))
    return abs(_leans(sample)) > 1 and _leans(text) * _leans(sample) < 0


def _scripts(text: str, least: int) -> set[int]:
    """The scripts beside Latin that a text has some letters of."""
    return {n for n, script in enumerate(_SCRIPTS) if n and len(script.findall(text)) >= least}


def _leans(text: str) -> int:
    """Positive for English, negative for another language that is known, 0 for neither."""
    return len(_ENGLISH.findall(text)) - len(_OTHER.findall(text))
