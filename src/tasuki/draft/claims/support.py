"""Whether entries of a thread speak of what a sentence says, measured by the words they share."""

import math
import re
from collections.abc import Mapping, Sequence

from tasuki.draft.text.entries import join_entry_text, strip_colours
from tasuki.draft.text.lexicon import STOP_WORDS
from tasuki.draft.text.split import WORD, find_identifiers
from tasuki.model import Entry
from tasuki.patterns import compile_pattern

CITED_SHARE = 0.3
"""Share of a sentence's words that a text must contain to support it."""
RARE_SHARE = 0.2
"""Share of a sentence's rare words that the entries it cites, or their neighbours, must contain."""
FOUND_SHARE = 0.35
"""Share of them that one entry must contain to be cited instead of the author's refs."""
SUPPORT_WINDOW = 2_000
"""Newest entries in which support is looked for."""
ENTRY_CHARACTERS = 6_000
"""Characters of an entry that is not cited, both ends together."""
_EAST_ASIAN = compile_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
_SCRIPTS = tuple(
    compile_pattern(f"[{letters}]")
    for letters in (
        "A-Za-z", "\u0370-\u03ff", "\u0400-\u052f", "\u0590-\u05ff", "\u0600-\u06ff", "\u0900-\u0dff", "\u0e00-\u0eff",
        "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff", "\uac00-\ud7af",
    )
)  # fmt: skip
"""Latin, Greek, Cyrillic, Hebrew, Arabic, those of India, Thai and Lao, Chinese and Japanese, Korean."""
_ENGLISH = compile_pattern(r"\b(?:the|and|to|of|is|for|that|it|was|with|this|not)\b", re.IGNORECASE)
_OTHER = compile_pattern(
    r"\b(?:der|die|das|und|ist|nicht|ein|eine|mit|für|les|des|une|est|pas|pour|dans|avec|el|los|las|que|una|por|para"
    r"|het|een|niet|voor|não|uma|che|nie|jest|się|что|не|это|для)\b",
    re.IGNORECASE,
)


def weigh_stems(text: str) -> dict[str, float]:
    """Return the stems of a sentence that say what it is about, with weights: names 2, words 1."""
    found: dict[str, float] = {}
    for name in find_identifiers(text):
        found[name.lower().strip("`")] = 2.0
    for match in WORD.finditer(text):
        word = match[0].lower()
        if word not in STOP_WORDS and not _EAST_ASIAN.search(word):
            found.setdefault(word[:6] if len(word) > 6 else word.removesuffix("s"), 1.0)
    for run in _EAST_ASIAN.findall(text):
        for index in range(len(run) - 1):
            found.setdefault(run[index : index + 2], 1.0)
    return found


class SupportFinder:
    """Finds in one thread the entries that support sentences."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.index_by_ref = {entry.ref: n for n, entry in enumerate(entries)}
        self._cut_texts: dict[int, str] = {}
        self._holding: dict[str, frozenset[int]] = {}

    def resolve_refs(self, text: str, refs: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """Return the entries that support a sentence, or none and the reason.

        Refs that exist are kept if they, or the entries right next to them, share enough of its
        words; else, and without refs, the entry that shares most is taken.
        """
        weights = weigh_stems(text)
        known = tuple(r for r in refs if r in self.index_by_ref)
        if known and self._is_supported(text, weights, known):
            return known, ""
        if found := self._find_best_entry(weights):
            return found, ""
        if known:
            return (), "the entries it cites do not speak of this"
        if refs:
            return (), "it cites entries that do not exist"
        return (), "it cites no entry, and none speaks of this"

    def _is_supported(self, text: str, weights: Mapping[str, float], refs: Sequence[int]) -> bool:
        beside = {
            n for r in refs for n in range(self.index_by_ref[r] - 1, self.index_by_ref[r] + 2)
        }
        places = [n for n in sorted(beside) if 0 <= n < len(self.entries)]
        texts = {n: strip_colours(join_entry_text(self.entries[n])).lower() for n in places}
        hay = "\n".join(texts.values())
        own = "\n".join(texts[self.index_by_ref[r]] for r in refs)
        if is_other_language(text, own):
            return _has_names(weights, hay)
        return (
            _is_mentioned(weights, hay)
            and _measure_share(self._weigh_by_rarity(weights), hay) >= RARE_SHARE
        )

    def _find_best_entry(self, weights: Mapping[str, float]) -> tuple[int, ...]:
        """Return the entry that contains most of the rare words, the newest of equals."""
        if sum(weights.values()) < 4:
            return ()
        rare = self._weigh_by_rarity(weights)
        held: dict[int, float] = {}
        for stem, weight in rare.items():
            for n in self._find_entries_with(stem):
                held[n] = held.get(n, 0.0) + weight
        best = max(((weight, n) for n, weight in held.items()), default=(0.0, 0))
        return (self.entries[best[1]].ref,) if best[0] >= FOUND_SHARE * sum(rare.values()) else ()

    def _weigh_by_rarity(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return stems with their weights, more for those that few entries contain."""
        among = min(len(self.entries), SUPPORT_WINDOW) + 1
        return {
            stem: weight * math.log(among / (len(self._find_entries_with(stem)) + 0.5))
            for stem, weight in weights.items()
        }

    def _find_entries_with(self, stem: str) -> frozenset[int]:
        """Return the newest entries that contain a stem."""
        if stem not in self._holding:
            first = max(0, len(self.entries) - SUPPORT_WINDOW)
            if not self._cut_texts:
                half = ENTRY_CHARACTERS // 2
                for n, entry in enumerate(self.entries[first:], first):
                    text = strip_colours(join_entry_text(entry))
                    is_long = len(text) > ENTRY_CHARACTERS
                    text = f"{text[:half]}\n{text[-half:]}" if is_long else text
                    self._cut_texts[n] = text.lower()
            holding = (n for n, text in self._cut_texts.items() if stem in text)
            self._holding[stem] = frozenset(holding)
        return self._holding[stem]


def is_supported_by(text: str, source: str) -> bool:
    """Return whether `source` speaks of what a sentence, `text`, says."""
    weights = weigh_stems(text)
    if is_other_language(text, source):
        return _has_names(weights, source.lower())
    return _is_mentioned(weights, source.lower())


def measure_mentioned(text: str, source: str) -> tuple[float, float]:
    """Return the share of a text's telling words that a lower-case source holds, and their weight.

    1.0 where the two differ in language and share some name: then words cannot be compared.
    """
    weights = weigh_stems(text)
    if is_other_language(text, source):
        return float(_has_names(weights, source)), sum(weights.values())
    return _measure_share(weights, source), sum(weights.values())


def _is_mentioned(weights: Mapping[str, float], source: str) -> bool:
    return sum(weights.values()) < 2 or _measure_share(weights, source) >= CITED_SHARE


def _measure_share(weights: Mapping[str, float], source: str) -> float:
    whole = sum(weights.values())
    return sum(w for stem, w in weights.items() if stem in source) / whole if whole else 1.0


def _has_names(weights: Mapping[str, float], source: str) -> bool:
    """Return whether a text contains some of a sentence's names. For another language words cannot be compared."""
    named = [stem for stem, weight in weights.items() if weight > 1]
    return not named or sum(name in source for name in named) * 3 >= len(named)


def is_other_language(text: str, source: str) -> bool:
    """Return whether a sentence and its entries differ in language. Then their words cannot be compared."""
    sample = source[:8_000]
    own, others = _find_scripts(text, 3), _find_scripts(sample, 3)
    if own != others:
        return bool(own - others) or (not own and bool(_find_scripts(sample, 8)))
    return (
        abs(_measure_english(sample)) > 1 and _measure_english(text) * _measure_english(sample) < 0
    )


def _find_scripts(text: str, minimum: int) -> set[int]:
    """Return the scripts other than Latin of which a text has at least `minimum` letters."""
    return {n for n, script in enumerate(_SCRIPTS) if n and len(script.findall(text)) >= minimum}


def _measure_english(text: str) -> int:
    """Return a positive number for English, negative for another known language, 0 for neither."""
    return len(_ENGLISH.findall(text)) - len(_OTHER.findall(text))
