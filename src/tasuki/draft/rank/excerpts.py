"""Which blocks of the agent's messages are quoted: as much new information as fits the room.

A block is worth the telling words in it that are not in an earlier quote. It is worth more
if the goal speaks of it, if it came late, and if it concludes a turn. Blocks are taken one
by one, the one with the most worth for its length first. What two blocks share is quoted
once, in the words of the later one.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tasuki.draft.rank.blocks import MessageBlock
from tasuki.draft.text import language_cues
from tasuki.draft.text.entries import strip_frame
from tasuki.draft.text.lexicon import STOP_WORDS
from tasuki.draft.text.split import PATH, find_tokens, measure_text, split_sentences, trim_name
from tasuki.harness.reading.jsonl import drop_torn_sentences
from tasuki.harness.tool_table.calls import LAUNCHED
from tasuki.model import Entry
from tasuki.patterns import compile_pattern

_WORD = compile_pattern(r"[^\W\d_]{4,}")
_OTHER_LETTER = compile_pattern(r"[^\W\x00-\x7f]")
NAME_WEIGHT, WORD_WEIGHT = 2.0, 1.0
REPEAT_FACTOR = 0.25
"""Factor for a word's worth each time it was quoted."""
MIN_LENGTH = 70
"""Minimum length that is counted for a block: shorter ones say little by themselves."""
LENGTH_POWER = 1.0
"""Below 1: of two blocks of equal density, the longer is worth more."""
LINE_COST = 3
"""Characters that a quoted line takes in addition to its own."""
MESSAGE_COST = 16
"""Characters that a message takes in addition to its lines: its reference, a mark for omissions."""
HEADING_COST = 7
"""Characters that a heading takes in addition to its own."""
MAX_LEAD = 240
"""Maximum characters of a paragraph that introduces a list, to be quoted with it."""
NO_SENTENCE_WEIGHT = 1.0
"""Weight of a block without a sentence: a table, code."""
SHORT_MESSAGE = 200
"""Characters up to which a message that begins with an announcement is only that."""
_LIST_MARK = compile_pattern(r"^\s*[-*•]\s+(?=\D)")
_OPTION = compile_pattern(r"(?:[-*•]\s+)?(?:Option\s+[A-E1-5]\b|[A-E][.):]\s)")
_ENDS = (".", "!", "?", ":", "。", "？", "！", "：")
GAP = "[…]"
"""Printed where blocks of a message are left out."""


MIN_REPORT = 120
"""Characters from which a sub-agent's report is quoted."""
_NO_ANSWER = "No response requested."
"""What Claude Code writes where no model answered."""


def extract_message(entry: Entry) -> str:
    """Return what is quoted of an entry: the agent's words, a summary, a sub-agent's report; else nothing."""
    call = entry.tool
    if call is None:
        is_said = entry.kind in ("assistant", "compaction") and not PATH.fullmatch(entry.text)
        is_said = is_said and entry.text.strip() != _NO_ANSWER
        return strip_frame(entry.text) if is_said else ""
    is_report = call.kind == "agent" and call.status == "ok" and not call.background
    is_report = is_report and not call.output.startswith(LAUNCHED)
    is_report = is_report and '"agent_status":' not in call.output[:200]  # A list of agents.
    return drop_torn_sentences(call.output) if is_report and len(call.output) >= MIN_REPORT else ""


def measure_block(text: str) -> int:
    """Return the characters that a quoted block takes in the brief."""
    return measure_text(text) + LINE_COST * (text.count("\n") + 1)


def weigh_telling_words(text: str) -> dict[str, float]:
    """Return the words and names that distinguish a text, in lower case, with their weight."""
    if not text.isascii() and _OTHER_LETTER.search(text):
        names = dict.fromkeys(map(_find_name, find_tokens(text)), NAME_WEIGHT)
        stems = dict.fromkeys(map(_find_stem, _WORD.findall(text.lower())), WORD_WEIGHT)
    else:  # Each word is inside one token then, and tokens occur again and again.
        found = [_describe_token(token) for token in dict.fromkeys(find_tokens(text))]
        names = dict.fromkeys([name for name, _ in found], NAME_WEIGHT)
        stems = dict.fromkeys([stem for _, stems in found for stem in stems], WORD_WEIGHT)
    weights = names | {stem: weight for stem, weight in stems.items() if stem not in names}
    weights.pop("", None)
    return weights


def _find_name(token: str) -> str:
    name = trim_name(token)
    return name.lower() if 2 < len(name) <= 80 else ""


@lru_cache(maxsize=8_192)
def _describe_token(token: str) -> tuple[str, tuple[str, ...]]:
    """Return the name that a token is, if it is one, and the words in it without endings."""
    return _find_name(token), tuple(map(_find_stem, _WORD.findall(token.lower())))


@lru_cache(maxsize=8_192)
def _find_stem(word: str) -> str:
    """Return a word without its ending; empty for one that distinguishes nothing."""
    if word in STOP_WORDS:
        return ""
    for ending in ("ing", "ed", "es", "s"):
        if len(word) > len(ending) + 4 and word.endswith(ending):
            return word[: -len(ending)]
    return word


class WordWeights(NamedTuple):
    """The telling words of each block with their weights, and how rare each word is."""

    words: list[dict[str, float]]
    rarity: dict[str, float]


def weigh_words(blocks: Sequence[MessageBlock], others: Iterable[str] = ()) -> WordWeights:
    """Weigh the words of blocks; words of other texts only make them less rare."""
    words = [weigh_telling_words(block.text) for block in blocks]
    seen: Counter[str] = Counter()
    for found in words:
        seen.update(found.keys())
    for text in others:
        seen.update(weigh_telling_words(text).keys())
    count = len(blocks) + 1
    return WordWeights(words, {w: math.log(1 + count / n) for w, n in seen.items()})


class ExcerptPicker:
    """Picks blocks of some messages, across several sections, without repetitions.

    `worth` gives what a block is worth apart from its words: its age, its place, what the goal
    shares.
    """

    def __init__(
        self, blocks: Sequence[MessageBlock], weights: "WordWeights | None" = None
    ) -> None:
        self.blocks = list(blocks)
        self._words, self._rarity = weights or weigh_words(blocks)
        self._quoted_counts: Counter[str] = Counter()
        self.taken: set[int] = set()
        self._options: dict[int, list[int]] = {}
        """The options among which a message lets choose, by each of them."""
        marked = (n for n, b in enumerate(self.blocks) if _OPTION.match(b.text))
        for _, group in groupby(marked, lambda n: self.blocks[n].ref):
            options = list(group)
            if len(options) > 1:
                self._options |= dict.fromkeys(options, options)

    def note_text(self, text: str) -> None:
        """Note that a text is in the brief, so that its words are worth less from now on."""
        self._quoted_counts.update(weigh_telling_words(text).keys())

    def measure_novelty(self, index: int) -> float:
        """Return what a block says that was not quoted yet."""
        rarity, counts = self._rarity, self._quoted_counts
        return sum(
            weight * rarity[word] * (REPEAT_FACTOR ** counts[word] if word in counts else 1.0)
            for word, weight in self._words[index].items()
        )

    def pick_blocks(
        self, indexes: Iterable[int], room: int, worth: Callable[[MessageBlock], float]
    ) -> tuple[list[int], int]:
        """Return blocks that fit into `room` characters, and the room left.

        The best for their length come first. A block brings its heading along, and, if there is
        room, the paragraph that introduces it.
        """
        fixed = {i: worth(self.blocks[i]) for i in indexes if i not in self.taken}
        by_place = {(self.blocks[i].ref, self.blocks[i].place): i for i in fixed}
        queue = [(-self._measure_density(i, fixed[i]), i) for i in fixed if fixed[i] > 0]
        heapq.heapify(queue)
        chosen: list[int] = []
        printed: set[tuple[int, str]] = set()
        while queue:
            _, index = heapq.heappop(queue)
            if index in self.taken:
                continue
            density = self._measure_density(index, fixed[index])
            if queue and density < -queue[0][0] - 1e-12:
                heapq.heappush(queue, (-density, index))
                continue
            for group in self._list_groups(index, by_place):
                block = self.blocks[group[-1]]
                cost = sum(measure_block(self.blocks[i].text) for i in group)
                cost += MESSAGE_COST * ((block.ref, "") not in printed)
                if block.heading and (block.ref, block.heading) not in printed:
                    cost += len(block.heading) + HEADING_COST
                if cost <= room:
                    room -= cost
                    self._take_blocks(group, printed)
                    chosen += group
                    break
        return sorted(chosen), room

    def mark_taken(self, indexes: Iterable[int]) -> None:
        """Note that some blocks are quoted whatever they are worth."""
        self._take_blocks(list(indexes), set())

    def _list_groups(
        self, index: int, by_place: Mapping[tuple[int, int], int]
    ) -> Iterator[list[int]]:
        """Yield a block with the paragraph that introduces it, then the block alone.

        One that points back never stands alone, nor one that ends in a colon without its list;
        of options none without the others.
        """
        block = self.blocks[index]
        if block.kind == "paragraph" and block.text.endswith((":", "：")):
            group, place = [index], block.place + 1
            while (after := by_place.get((block.ref, place))) is not None and (
                self.blocks[after].kind == "item" and self.blocks[after].lead == block.place
            ):
                group += [after] if after not in self.taken else []
                place += 1
            if len(group) > 1:
                yield group
                yield group[:2]
                return
        if options := self._options.get(index):
            yield [i for i in options if i not in self.taken]
            return
        lead = by_place.get((block.ref, block.lead))
        is_open = lead is not None and lead not in self.taken
        if lead is not None and is_open and len(self.blocks[lead].text) < MAX_LEAD:
            yield [lead, index]
        if not (is_open and block.kind == "paragraph"):
            yield [index]

    def _take_blocks(self, group: Sequence[int], printed: set[tuple[int, str]]) -> None:
        for index in group:
            block = self.blocks[index]
            self.taken.add(index)
            self._quoted_counts.update(self._words[index].keys())
            printed |= {(block.ref, ""), (block.ref, block.heading)}

    def _measure_density(self, index: int, worth: float) -> float:
        length = max(MIN_LENGTH, measure_block(self.blocks[index].text))
        return worth * self.measure_novelty(index) / math.pow(length, LENGTH_POWER)


@lru_cache(maxsize=20_000)
def weigh_cue(text: str) -> float:
    """Return how likely a block states something learnt or decided, by its best sentence.

    0.35 for one that only announces a step, else 0.2 to 2.
    """
    first = text[:1_500]
    if language_cues.is_narration(first) and len(first) < SHORT_MESSAGE:
        return 0.35
    weights = [language_cues.weigh_assistant_sentence(s) for s in split_sentences(first)]
    return 0.2 + 0.6 * min(max(weights, default=NO_SENTENCE_WEIGHT), 3.0)


def quote_blocks(
    blocks: Sequence[MessageBlock], indexes: Iterable[int]
) -> Iterator[tuple[int, str]]:
    """Yield the chosen blocks as one text per message, in the thread's order: `(ref, text)`.

    Headings are before the paragraph or above the list they belong to, and `[…]` where
    something is left out in between.
    """
    by_ref: dict[int, list[MessageBlock]] = {}
    for index in sorted(indexes, key=lambda i: (blocks[i].ref, blocks[i].place)):
        by_ref.setdefault(blocks[index].ref, []).append(blocks[index])
    for ref, chosen in by_ref.items():
        text = "\n".join(_format_blocks(chosen))
        yield ref, text if "\n" in text else _LIST_MARK.sub("", text)


def _format_blocks(blocks: Sequence[MessageBlock]) -> Iterator[str]:
    heading, place = "", blocks[0].place - 1
    for block in blocks:
        gap = block.place > place + 1
        place = block.place
        if block.heading == heading or not block.heading:
            heading = block.heading
            yield from ([GAP] if gap else [])
            yield block.text
            continue
        heading = block.heading
        yield from ([GAP] if gap and block.begins else [])
        left_out = "" if block.begins else f" {GAP}"
        if block.kind == "paragraph":
            yield f"**{heading}{'' if heading.endswith(_ENDS) else ':'}**{left_out} {block.text}"
        else:
            yield f"**{heading}**{left_out}"
            yield block.text
