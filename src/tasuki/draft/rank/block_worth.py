"""What a block of an earlier message is worth to the successor, apart from what is new in it.

A block is worth more if it concluded a turn or speaks of the goal, and less in a plan or report
that the user has answered since. One that only announces a step, in the middle of a turn tells how
far the work was, finds fault with code that was edited since, or gives a setting a value that was
changed since, is worth nothing.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.rank.blocks import MessageBlock
from tasuki.draft.rank.excerpts import weigh_cue
from tasuki.draft.text import language_cues
from tasuki.draft.text.entries import ThreadTurn, find_concluding_refs
from tasuki.draft.text.split import find_identifiers, split_sentences
from tasuki.model import Entry
from tasuki.patterns import compile_pattern

WORTH_OF = {"assistant": 0.85, "tool": 0.8, "compaction": 1.0}
"""What a message in the middle of a turn is worth, a sub-agent's report, a harness's summary."""
USED_REPORT_WORTH = 0.1
"""Worth of a sub-agent's report after the agent said what follows from it."""
REPORT_BLOCKS, REPORT_HALF_LIFE, REPORT_MIN_WORTH = 3, 3, 0.1
"""Number of blocks from which a message is a plan or a report; after how many messages of
the user half of its worth is gone, since it was worked off or overruled; and the lowest
factor.
"""
AGREEMENT_CHARACTERS, ANNOUNCEMENT_CHARACTERS = 16, 200
"""Maximum lengths of what only agrees, and of what only announces a step."""
BARE_CHARACTERS, PASSING_CHARACTERS = 160, 400
"""Maximum lengths of a remark in the middle of a turn without a name, a number or a reason, and of one on how far the work is."""
_PASSING = compile_pattern(
    r"(?i)\b(?:so far|not yet|no \w+ yet|pending|waiting|awaiting|in progress|is running|are running|in a moment|about to|(?:one|two|three|\d+) (?:of|left|to go|more to)|remaining)\b"
)
_TELLS = compile_pattern(
    r"(?i)[\d`\":：]|\b(?:because|since|instead|rather|so that|never|not|no|without|but)\b|n't\b|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
)
"""A number, a quotation, a reason or a contrast; scripts without spaces are not judged."""

_FINDING = compile_pattern(
    r"(?i)\b(?:does not|doesn'?t|do not|don'?t|isn'?t|is not|are not|aren'?t|no longer|missing|lacks?|should|could|recommend\w*|consider|"
    r"need(?:s|ed)? to|must|not yet|never|the (?:problem|issue|bug|fix)|wrong|bug|instead|only|still|currently|without|fails?|would)\b"
)
"""What says how something is, or ought to be: true until the code is edited."""
_VALUE = compile_pattern(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+) ?[=:] ?[\"'`]?([\w./:@-]*[\w/])")
"""A setting in capitals with its value."""
_CODE_SPAN = compile_pattern(r"`([^`\n]{3,120})`")
_NAME_IN_CODE = compile_pattern(r"[A-Za-z_]\w{3,}")
EDITED_SHARE = 0.8
"""Share of the names in a finding's code from which on it was worked off."""
LONG_CHANGE, EDITS_LOOKED_AT = 8_000, 1_000_000
"""Characters of one change, and of all changes, in which names are looked for."""


class BlockWorth:
    """The worth of the blocks of one thread for one goal."""

    def __init__(
        self, task: AuthorTask, turns: Sequence[ThreadTurn], blocks: Sequence[MessageBlock]
    ) -> None:
        self.relevance, self._thread = task.relevance, task.thread
        self._known: dict[tuple[int, int], float] = task.derived.remember("worth", dict)
        """The worth of each block whatever the goal, by its message and place."""
        self._prompt_refs = [t.prompt.ref for t in turns if t.prompt]
        self._sizes = Counter(b.ref for b in blocks)
        self._concluding = find_concluding_refs(turns)
        self._last_concluding = max(self._concluding, default=0)
        self._kinds = {e.ref: e.kind for e in task.thread.entries if e.ref in self._sizes}

    @cached_property
    def _newer(self) -> list[Entry]:
        """The entries after the first block: only what is newer than a block speaks against it."""
        first = min(self._sizes, default=0)
        return [entry for entry in self._thread.entries if entry.ref > first]

    @cached_property
    def _last_values(self) -> dict[str, tuple[int, str]]:
        """The last value that a message or an edit gives to each name (`APP_ID=67`), with its entry."""
        found: dict[str, tuple[int, str]] = {}
        for entry in self._newer:
            changes = entry.tool.changes if entry.tool else ()
            said = [entry.text] if entry.kind == "assistant" else [c.new for c in changes]
            for text in said:
                for name, value in _VALUE.findall(text[:LONG_CHANGE]):
                    found[name] = (entry.ref, value)
        return found

    @cached_property
    def _last_edits(self) -> dict[str, int]:
        """The names in edited code, with the last edit of each."""
        found: dict[str, int] = {}
        left = EDITS_LOOKED_AT
        for entry in reversed(self._newer):
            for change in entry.tool.changes if entry.tool and entry.tool.status == "ok" else ():
                text = f"{change.old[:LONG_CHANGE]}\n{change.new[:LONG_CHANGE]}"
                left -= len(text)
                for name in set(_NAME_IN_CODE.findall(text)) if left > 0 else ():
                    found.setdefault(name, entry.ref)
        return found

    def weigh(self, block: MessageBlock) -> float:
        """Return what a block is worth, around 1. `ExcerptPicker.pick_blocks` multiplies it by what is new in the block."""
        place = (block.ref, block.place)
        if (worth := self._known.get(place)) is None:
            worth = self._known[place] = self._weigh_alone(block)
        if not worth:
            return 0.0
        return worth * (1 + self.relevance.measure_overlap(f"{block.heading} {block.text}"))

    def _weigh_alone(self, block: MessageBlock) -> float:
        kind, ends_turn = self._kinds[block.ref], block.ref in self._concluding
        if kind == "assistant" and (
            only_announces(block.text)
            or is_bare(block.text, AGREEMENT_CHARACTERS)
            or (not ends_turn and is_passing(block.text))
        ):
            return 0.0
        if self._is_worked_off(block) or self._is_overtaken(block):
            return 0.0
        worth = weigh_cue(block.text)
        if not ends_turn:
            is_drawn_on = kind == "tool" and block.ref < self._last_concluding
            worth *= USED_REPORT_WORTH if is_drawn_on else WORTH_OF[kind]
        if self._sizes[block.ref] >= REPORT_BLOCKS:
            turns = len(self._prompt_refs) - bisect_right(self._prompt_refs, block.ref)
            worth *= max(REPORT_MIN_WORTH, 2 ** (-turns / REPORT_HALF_LIFE))
        return worth

    def _is_worked_off(self, block: MessageBlock) -> bool:
        """Return whether nearly all code that a finding names was edited after it."""
        names = set(_NAME_IN_CODE.findall(" ".join(_CODE_SPAN.findall(block.text))))
        edited = sum(self._last_edits.get(name, 0) > block.ref for name in names)
        is_edited = bool(names) and edited >= EDITED_SHARE * len(names)
        return is_edited and bool(_FINDING.search(block.text))

    def _is_overtaken(self, block: MessageBlock) -> bool:
        """Return whether a later message or edit gives another value for a name in a block."""
        own: dict[str, set[str]] = {}
        for name, value in _VALUE.findall(block.text):
            own.setdefault(name, set()).add(value)
        last = ((self._last_values.get(name, (0, "")), values) for name, values in own.items())
        return any(ref > block.ref and value not in values for (ref, value), values in last)


def is_passing(text: str) -> bool:
    """Return whether a remark in the middle of a turn tells nothing, or how far the work was."""
    return is_bare(text, BARE_CHARACTERS) or (
        len(text) < PASSING_CHARACTERS and bool(_PASSING.search(text))
    )


def is_bare(text: str, limit: int) -> bool:
    """Return whether a text below a length holds no name, number, quotation or reason."""
    return len(text) < limit and not _tells(text)


def only_announces(text: str) -> bool:
    """Return whether a short text announces or celebrates a step, and says no more after that."""
    return (
        len(text) < ANNOUNCEMENT_CHARACTERS
        and language_cues.is_narration(text)
        and not any(map(_tells, split_sentences(text)[1:]))
    )


def _tells(text: str) -> bool:
    """Return whether a text holds a name, a number, a quotation or a reason."""
    return bool(_TELLS.search(text) or find_identifiers(text))
