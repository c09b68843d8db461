"""Which blocks of the agent's messages are quoted: the most that is new for the room there is.

A block is worth the telling words in it that nothing quoted before it holds, more of them where the
goal speaks of it, where it came late, and where it concludes a turn. Blocks are taken one after the
other, the one with the most for its length first; what two blocks say alike is told once, in the
words of the later one.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from msgspec.structs import replace

from tasuki.draft import said
from tasuki.draft.blocks import Block
from tasuki.draft.text import STOP_WORDS, identifiers, sentences

_WORD = re.compile(r"[^\W\d_]{4,}")
_OFFER = re.compile(
    r"(?:want me to|shall i|should i (?:go|proceed|start|also)|would you like|let me know|if you(?:'d| would)? (?:want|like)|"
    r"do you want me|happy to|ready to (?:go|start|proceed))\b",
    re.IGNORECASE,
)
NAME_WEIGHT, WORD_WEIGHT = 2.0, 1.0
TOLD_AGAIN = 0.25
"""What is left of a word's worth each time it was told."""
LEAST_LENGTH = 70
"""Characters that a block counts for at least: what is shorter tells little by itself."""
LENGTH_POWER = 1.0
"""Below 1: of two blocks as dense as each other, the longer is worth more."""
LINE = 3
"""Characters that a quoted line takes beside its own."""
MESSAGE = 16
"""Characters that a message takes besides its lines: its reference, a mark where something is left out."""
HEADING = 7
"""Characters that a heading takes besides its own."""
LEAD = 240
"""Characters of a paragraph that introduces a list, at most, to be quoted with it."""
UNWORDED = 1.0
"""Weight of a block without a sentence: a table, code."""
SHORT = 200
"""Characters up to which a message that begins with an announcement is only that."""
_LIST_MARK = re.compile(r"^\s*[-*•]\s+(?=\D)")
_ENDS = (".", "!", "?", ":", "。", "？", "！", "：")
GAP = "[…]"
"""Stands where blocks of a message are left out."""


def block_length(text: str) -> int:
    """Characters that a quoted block takes in the brief."""
    return len(text) + LINE * (text.count("\n") + 1)


def telling_words(text: str) -> dict[str, float]:
    """The words and names of a text that tell it from others, in lower case, with their weight."""
    found = {name.lower(): NAME_WEIGHT for name in identifiers(text) if 2 < len(name) <= 80}
    for word in _WORD.findall(text.lower()):
        if word not in STOP_WORDS:
            found.setdefault(_stem(word), WORD_WEIGHT)
    return found


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if len(word) > len(ending) + 4 and word.endswith(ending):
            return word[: -len(ending)]
    return word


class ExcerptPicker:
    """Picks blocks of some messages, across several sections, and tells nothing twice.

    `worth` gives what a block is worth beside its words: its age, its place, what the goal shares.
    """

    def __init__(self, blocks: Sequence[Block], others: Iterable[str] = ()) -> None:
        self.blocks = list(blocks)
        self._words = [telling_words(f"{b.text}") for b in self.blocks]
        seen: Counter[str] = Counter()
        for words in self._words:
            seen.update(words.keys())
        for text in others:
            seen.update(telling_words(text).keys())
        count = len(self.blocks) + 1
        self._rarity = {w: math.log(1 + count / n) for w, n in seen.items()}
        self._told: Counter[str] = Counter()
        self.taken: set[int] = set()

    def tell(self, text: str) -> None:
        """Note that a text is in the brief: what it says is worth less from now on."""
        self._told.update(telling_words(text).keys())

    def novelty(self, index: int) -> float:
        """What a block says that was not told yet."""
        return sum(
            weight * self._rarity[word] * TOLD_AGAIN ** self._told[word]
            for word, weight in self._words[index].items()
        )

    def likeness(self, index: int, words: Collection[str]) -> float:
        """How much of what a block says some words hold, 0 to 1, rare ones counting more."""
        own = self._words[index]
        whole = sum(weight * self._rarity[word] for word, weight in own.items())
        shared = sum(weight * self._rarity[word] for word, weight in own.items() if word in words)
        return shared / whole if whole else 0.0

    def pick(
        self, indexes: Iterable[int], room: int, worth: Callable[[Block], float], least: float = 0.0
    ) -> tuple[list[int], int]:
        """Blocks that fit into `room` characters, the best for their length first, and the room left.

        A block brings its heading along, and the paragraph that introduces it where there is room.
        Stops at blocks whose worth for their length is below `least`.
        """
        fixed = {i: worth(self.blocks[i]) for i in indexes if i not in self.taken}
        by_place = {(self.blocks[i].ref, self.blocks[i].place): i for i in fixed}
        queue = [(-self._density(i, fixed[i]), i) for i in fixed if fixed[i] > 0]
        heapq.heapify(queue)
        chosen: list[int] = []
        shown: set[tuple[int, str]] = set()
        while queue:
            _, index = heapq.heappop(queue)
            if index in self.taken:
                continue
            density = self._density(index, fixed[index])
            if queue and density < -queue[0][0] - 1e-12:
                heapq.heappush(queue, (-density, index))
                continue
            if density < least:
                break
            for group in self._groups(index, by_place):
                cost = self._cost(group, shown)
                if cost <= room:
                    room -= cost
                    self._take(group, shown)
                    chosen += group
                    break
        return sorted(chosen), room

    def take_all(self, indexes: Iterable[int]) -> None:
        """Note that some blocks are quoted whatever they are worth."""
        self._take(list(indexes), set())

    def _groups(self, index: int, by_place: Mapping[tuple[int, int], int]) -> Iterator[list[int]]:
        """A block with what introduces it, then by itself."""
        block = self.blocks[index]
        lead = by_place.get((block.ref, block.lead))
        if lead is not None and lead not in self.taken and len(self.blocks[lead].text) < LEAD:
            yield [lead, index]
        yield [index]

    def _cost(self, group: Sequence[int], shown: Set[tuple[int, str]]) -> int:
        """Characters that some blocks of one message take, with what is printed around them."""
        block = self.blocks[group[-1]]
        cost = sum(block_length(self.blocks[i].text) for i in group)
        if (block.ref, "") not in shown:
            cost += MESSAGE
        if block.heading and (block.ref, block.heading) not in shown:
            cost += len(block.heading) + HEADING
        return cost

    def _take(self, group: Sequence[int], shown: set[tuple[int, str]]) -> None:
        for index in group:
            block = self.blocks[index]
            self.taken.add(index)
            self._told.update(self._words[index].keys())
            shown |= {(block.ref, ""), (block.ref, block.heading)}

    def _density(self, index: int, worth: float) -> float:
        length = max(LEAST_LENGTH, block_length(self.blocks[index].text))
        return worth * self.novelty(index) / math.pow(length, LENGTH_POWER)


def is_offer(text: str) -> bool:
    """Whether a block offers what the agent might do next."""
    return len(text) < 240 and bool(_OFFER.search(text[:120]))


_ONLY_OFFERS = re.compile(
    r"(?:(?:so|ok(?:ay)?|now|or|and)\b[, ]+)*(?:do you )?(?:want me to|shall i|should i|would you like(?: me)?)\b[^?？\n]*[?？:：]$",
    re.IGNORECASE,
)


def without_offers(blocks: Sequence[Block]) -> list[Block]:
    """The blocks of a message that was answered, without a closing question that only offers the next step.

    With `Would you like me to:` its options go; what stands in code, or says more, stays.
    """
    offers = {b.place for b in blocks if _ONLY_OFFERS.fullmatch(b.text)}
    return [
        b for b in blocks if b.place not in offers and not (b.kind == "item" and b.lead in offers)
    ]


@lru_cache(maxsize=20_000)
def cue_of(text: str) -> float:
    """How likely a block states something learnt or decided, by its most telling sentence.

    0.35 for one that only announces a step, 0.5 for an offer, else 0.2 to 2.
    """
    first = text[:1_500]
    if said.is_narration(first) and len(first) < SHORT:
        return 0.35
    if is_offer(first):
        return 0.5
    weights = (said.weight_assistant(s, said.marks(s)) for s in sentences(first))
    return 0.2 + 0.6 * min(max(weights, default=UNWORDED), 3.0)


def join_lists(blocks: Sequence[Block], most: int) -> list[Block]:
    """The blocks of one message, lists of up to `most` characters as one: an item alone says half of it."""
    joined: list[Block] = []
    places: dict[int, int] = {}
    for block in blocks:
        last = joined[-1] if joined else None
        goes_on = last and last.kind == block.kind == "item" and last.heading == block.heading
        if last and goes_on and len(last.text) + len(block.text) < most:
            joined[-1] = replace(last, text=f"{last.text}\n{block.text}")
        else:
            joined.append(replace(block, place=len(joined), lead=places.get(block.lead, -1)))
        places[block.place] = len(joined) - 1
    return joined


def quote_blocks(blocks: Sequence[Block], indexes: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Chosen blocks as one text a message, in the thread's order: `(ref, text)`.

    Headings stand before the paragraph or above the list they belong to, and `[…]` where something is
    left out in between.
    """
    by_ref: dict[int, list[Block]] = {}
    for index in sorted(indexes, key=lambda i: (blocks[i].ref, blocks[i].place)):
        by_ref.setdefault(blocks[index].ref, []).append(blocks[index])
    for ref, chosen in by_ref.items():
        text = "\n".join(_lines(chosen))
        yield ref, text if "\n" in text else _LIST_MARK.sub("", text)


def _lines(chosen: Sequence[Block]) -> Iterator[str]:
    heading, place = "", chosen[0].place - 1
    for block in chosen:
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
