"""What a block of an earlier message is worth to the successor, apart from what is new in it.

A block is worth more if it concluded a turn, or speaks of the goal or of the current work.
It is worth less if it announces a step or was overtaken: a plan or report that the user
answered, an error fixed since, a file edited since, a finding whose code was edited since.
A single statement does not age.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.rank.blocks import MessageBlock
from tasuki.draft.rank.excerpts import ExcerptPicker, weigh_cue, weigh_telling_words
from tasuki.draft.text import language_cues
from tasuki.draft.text.entries import ThreadTurn, extract_user_words, find_concluding_refs
from tasuki.draft.text.split import find_identifiers, split_sentences
from tasuki.patterns import compile_pattern

WORTH_OF = {"assistant": 0.85, "tool": 0.8, "compaction": 1.0}
"""What a message in the middle of a turn is worth, a sub-agent's report, a harness's summary."""
USED_REPORT_WORTH = 0.1
"""Worth of a sub-agent's report after the agent said what follows from it."""
PASSING_WORTH, PASSING_CHARACTERS = 0.0, 400
"""Factor for a remark in the middle of a turn on how far the work is, and its maximum length."""
BARE_CHARACTERS = 160
"""Maximum length of a remark in the middle of a turn that is worth nothing without a name, a number or a reason."""
OVERTAKEN_WORTH, OVERTAKEN_AFTER = 0.5, 10
"""Factor for a block whose files were edited this many entries later, or whose offer was
answered.
"""
WORKED_OFF_WORTH, WORKED_OFF_SHARE = 0.4, 0.8
"""Factor for a finding, if this share of the code names in it was edited since."""
LONG_CHANGE, EDITS_LOOKED_AT = 8_000, 1_000_000
"""Characters of one change, and of all changes, in which names are looked for."""
CODE_WORTH = 0.2
"""What code and tables are worth: those of earlier turns show how it was, or was going to be."""
REPORT_BLOCKS, REPORT_HALF_LIFE, REPORT_MIN_WORTH = 3, 3, 0.1
"""Number of blocks from which a message is a plan or a report; after how many messages of
the user half of its worth is gone, since it was worked off or overruled; and the lowest
factor.
"""
ANNOUNCEMENT_WORTH, SHORT_CHARACTERS = 0.0, 200
"""Factor for a message that only announces a step, and its maximum length in characters."""
LEAD_CHARACTERS = 80
"""Characters up to which a line that ends in a colon only introduces what is quoted with it."""
TOPIC_WEIGHT, TOPIC_TURNS, TOPIC_TEXT = 3.0, 2, 4_000
"""Weight of the similarity between a block and the newest topic, read from this many turns
and characters.
"""

_PASSING = compile_pattern(
    r"(?i)\b(?:so far|not yet|no \w+ yet|pending|waiting|awaiting|in progress|is running|are running|in a moment|about to|(?:one|two|three|\d+) (?:of|left|to go|more to)|remaining)\b"
)
_TELLS = compile_pattern(
    r"(?i)[\d`\":：]|\b(?:because|since|instead|rather|so that|never|not|no|without|but|n't)\b|n't\b|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
)
"""A number, a quotation, a reason or a contrast; scripts without spaces are not judged."""
_OFFERS = compile_pattern(
    r"\b(?:i recommend|i'?d recommend|recommendation|option [a-d1-4]\b|should i|want me to|shall i|would you like|which (?:one|of these))\b",
    re.IGNORECASE,
)
_OFFER_HINTS = ("recommend", "option ", "should i", "want me", "shall i", "would you ", "which ")
"""Words of which a recommendation or an offer holds one; they are found faster than the pattern."""
_EXTENSION = compile_pattern(r"\.\w")
_FILE_NAME = compile_pattern(r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.\w{1,6}\b")
_FINDING = compile_pattern(
    r"\b(?:does not|doesn'?t|do not|don'?t|isn'?t|is not|are not|aren'?t|no longer|missing|lacks?|should|could|recommend\w*|consider|"
    r"need(?:s|ed)? to|must|not yet|never|the (?:problem|issue|bug|fix)|wrong|bug|instead|only|still|currently|without|fails?|would)\b",
    re.IGNORECASE,
)
"""What says how something is, or ought to be: true until the code is edited."""
_CODE_SPAN = compile_pattern(r"`([^`\n]{3,120})`")
_NAME_IN_CODE = compile_pattern(r"[A-Za-z_]\w{3,}")


class BlockWorth:
    """The worth of the blocks of one thread for one goal."""

    def __init__(
        self, task: AuthorTask, turns: Sequence[ThreadTurn], picker: ExcerptPicker
    ) -> None:
        self.task = task
        self.turns = turns
        self.picker = picker
        self.facts = task.derived.facts
        self.entries = task.thread.entries
        self._prompt_refs = [t.prompt.ref for t in turns if t.prompt]
        self._sizes = Counter(b.ref for b in picker.blocks)
        self.concluding = find_concluding_refs(turns)
        self.last_concluding = max(self.concluding, default=0)
        self._kinds = {e.ref: e.kind for e in self.entries if e.ref in self._sizes}
        self._index = {(b.ref, b.place): n for n, b in enumerate(picker.blocks)}

    def weigh(self, block: MessageBlock) -> float:
        """Return what a block is worth, around 1.

        `ExcerptPicker.pick` multiplies it by what is new in the block.
        """
        if (
            "\n" not in block.text
            and block.text.endswith((":", "："))
            and len(block.text) < LEAD_CHARACTERS
        ):
            return 0.0  # It only leads to what is quoted with it.
        worth = 1.0
        if block.ref not in self.concluding:
            kind = self._kinds[block.ref]
            is_drawn_on = kind == "tool" and block.ref < self.last_concluding
            worth *= USED_REPORT_WORTH if is_drawn_on else WORTH_OF[kind]
        if block.kind in ("code", "table"):
            worth *= CODE_WORTH
        if self._sizes[block.ref] >= REPORT_BLOCKS:
            turns = len(self._prompt_refs) - bisect_right(self._prompt_refs, block.ref)
            worth *= max(REPORT_MIN_WORTH, 2 ** (-turns / REPORT_HALF_LIFE))
        if self._kinds[block.ref] == "assistant":
            if len(block.text) < SHORT_CHARACTERS and _only_announces(block.text):
                worth *= ANNOUNCEMENT_WORTH
            if block.ref not in self.concluding and self._is_passing(block.text):
                worth *= PASSING_WORTH
        if self._is_overtaken(block):
            worth *= OVERTAKEN_WORTH
        if self._is_worked_off(block):
            worth *= WORKED_OFF_WORTH
        goal = self.task.relevance.measure_overlap(f"{block.heading} {block.text}")
        near = self.picker.measure_likeness(self._index[block.ref, block.place], self._topic)
        return worth * weigh_cue(block.text) * (1 + goal) * (1 + TOPIC_WEIGHT * near)

    def _is_overtaken(self, block: MessageBlock) -> bool:
        """Return whether a file a block names was edited since, or the user answered its offer."""
        low = block.text.lower()
        if any(hint in low for hint in _OFFER_HINTS) and _OFFERS.search(block.text):
            return bool(self._prompt_refs) and block.ref < self._prompt_refs[-1]
        if not _EXTENSION.search(block.text):
            return False
        words = " ".join([word for word in block.text.split() if "." in word])
        named = (self._last_edit_by_file.get(name, 0) for name in _FILE_NAME.findall(words))
        return any(ref > block.ref + OVERTAKEN_AFTER for ref in named)

    def _is_worked_off(self, block: MessageBlock) -> bool:
        """Return whether nearly all code that a finding names was edited after it."""
        if "`" not in block.text:
            return False
        names = set(_NAME_IN_CODE.findall(" ".join(_CODE_SPAN.findall(block.text))))
        last_edits = self._last_edit_by_name
        done = sum([last_edits.get(name, 0) > block.ref for name in names])
        is_done = bool(names) and done >= WORKED_OFF_SHARE * len(names)
        return is_done and bool(_FINDING.search(block.text))

    def _is_passing(self, text: str) -> bool:
        """Return whether a remark in the middle of a turn tells nothing, or how far the work was."""
        is_bare = len(text) < BARE_CHARACTERS and not _tells(text)
        return is_bare or (len(text) < PASSING_CHARACTERS and bool(_PASSING.search(text)))

    @cached_property
    def _last_edit_by_file(self) -> dict[str, int]:
        """The names of edited files with the ref of the last edit of each."""
        return {f.path.rpartition("/")[2]: f.edits[-1] for f in self.facts.files[::-1] if f.edits}

    @cached_property
    def _last_edit_by_name(self) -> dict[str, int]:
        """The names of code that edits after the first block changed, with the ref of the last edit.

        Of a long change only the beginning is read, and of all edits only the newest.
        """
        last_edits: dict[str, int] = {}
        left = EDITS_LOOKED_AT
        first = min((block.ref for block in self.picker.blocks), default=0)
        for entry in reversed(self.entries):
            call = entry.tool
            if left <= 0 or entry.ref < first:
                break
            if call is None or not call.changes or call.status != "ok":
                continue
            for change in call.changes:
                text = f"{change.old[:LONG_CHANGE]}\n{change.new[:LONG_CHANGE]}"
                left -= len(text)
                for name in set(_NAME_IN_CODE.findall(text)):
                    last_edits.setdefault(name, entry.ref)
        return last_edits

    @cached_property
    def _topic(self) -> frozenset[str]:
        """The words of the user's last messages and the agent's last conclusion.

        They show what the work is about.
        """
        asked = [extract_user_words(t.prompt) for t in self.turns[-TOPIC_TURNS:] if t.prompt]
        concluded = [t.conclusion.text for t in self.turns[-1:] if t.conclusion]
        return frozenset(
            word for text in (*asked, *concluded) for word in weigh_telling_words(text[:TOPIC_TEXT])
        )


def _tells(text: str) -> bool:
    """Return whether a text holds a name, a number, a quotation or a reason."""
    return bool(_TELLS.search(text) or find_identifiers(text))


def _only_announces(text: str) -> bool:
    """Return whether a text announces or celebrates a step, and says no more after that."""
    return language_cues.is_narration(text) and not any(map(_tells, split_sentences(text)[1:]))
