"""What a block of an earlier message is worth to the successor, beside what it says that is new.

More is worth what concluded a turn, speaks of the goal or of what the work is about now; less what
announces a step or was overtaken: a plan or report that the user answered, an error mended since, a
file edited since, a finding whose code was edited since. A single statement does not age.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from tasuki.draft import said
from tasuki.draft.authors.task import Task
from tasuki.draft.blocks import Block
from tasuki.draft.entries import users_words
from tasuki.draft.excerpts import ExcerptPicker, cue_of, telling_words
from tasuki.draft.turns import Turn, concluding_refs

WORTH_OF = {"assistant": 0.85, "tool": 0.8, "compaction": 1.0}
"""What a message in the middle of a turn is worth, a sub-agent's report, a harness's summary."""
DRAWN_ON = 0.1
"""What a sub-agent's report is worth after the agent said what follows from it."""
MENDED = 0.1
"""What is left of a message that speaks of an error before it was mended."""
OVERTAKEN, OVERTAKEN_AFTER = 0.5, 10
"""What is left of a block whose files were edited so many entries later, or whose offer was answered."""
WORKED_OFF, WORKED_OFF_SHARE = 0.4, 0.8
"""What is left of a finding of whose names in code this share was edited since."""
LONG_CHANGE, EDITS_LOOKED_AT = 8_000, 1_000_000
"""Characters of one change, and of all changes, in which names are looked for."""
IN_CODE = 0.2
"""What code and tables are worth: those of earlier turns show how it was, or was going to be."""
REPORT, REPORT_HALF_LIFE, REPORT_LEAST = 3, 3, 0.1
"""Blocks of a message from which it is a plan or a report; messages of the user after which half of its
worth is gone, since it was worked off or overruled; and what is left of it at the least."""
ANNOUNCED, SHORT = 0.3, 200
"""What is left of a message that only announces a step, and its characters at most."""
LEAD = 80
"""Characters up to which a line that ends in a colon only leads to what is quoted with it."""
NEAR, TOPIC_TURNS, TOPIC_TEXT = 3.0, 2, 4_000
"""How much more a block is worth that speaks of what was spoken of last, in these turns and characters."""

_ERROR_NAME = re.compile(
    r"(?<!\w)\w*(?:Error|Exception|Failure)\b: ?[^\s;,]{3,80}|`[^`\n]{6,80}`|\"[^\"\n]{8,80}\""
)
"""What names an error in its line."""
_OFFERS = re.compile(
    r"\b(?:i recommend|i'?d recommend|recommendation|option [a-d1-4]\b|should i|want me to|shall i|would you like|which (?:one|of these))\b",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.\w{1,6}\b")
_FINDING = re.compile(
    r"\b(?:does not|doesn'?t|do not|don'?t|isn'?t|is not|are not|aren'?t|no longer|missing|lacks?|should|could|recommend\w*|consider|"
    r"need(?:s|ed)? to|must|not yet|never|the (?:problem|issue|bug|fix)|wrong|bug|instead|only|still|currently|without|fails?|would)\b",
    re.IGNORECASE,
)
"""What says how something is, or ought to be: true until the code is edited."""
_CODE_SPAN = re.compile(r"`([^`\n]{3,120})`")
_NAME_IN_CODE = re.compile(r"[A-Za-z_]\w{3,}")


class BlockWorth:
    """The worth of the blocks of one thread for one goal."""

    def __init__(self, task: Task, turns: Sequence[Turn], picker: ExcerptPicker) -> None:
        self.task = task
        self.turns = turns
        self.picker = picker
        self.facts = task.derived.facts
        self.entries = task.thread.entries
        self._asked = [t.asked.ref for t in turns if t.asked]
        self._sizes = Counter(b.ref for b in picker.blocks)
        self.concluding = concluding_refs(turns)
        self.last_concluding = max(self.concluding, default=0)
        self._kinds = {e.ref: e.kind for e in self.entries}
        self._index = {(b.ref, b.place): n for n, b in enumerate(picker.blocks)}

    def weigh(self, block: Block) -> float:
        """What a block is worth, around 1; `ExcerptPicker.pick` multiplies it by what is new in it."""
        if "\n" not in block.text and block.text.endswith((":", "：")) and len(block.text) < LEAD:
            return 0.0  # It only leads to what is quoted with it.
        worth = 1.0
        if block.ref not in self.concluding:
            kind = self._kinds[block.ref]
            is_drawn_on = kind == "tool" and block.ref < self.last_concluding
            worth *= DRAWN_ON if is_drawn_on else WORTH_OF[kind]
        if block.kind in ("code", "table"):
            worth *= IN_CODE
        if self._sizes[block.ref] >= REPORT:
            turns = len(self._asked) - bisect_right(self._asked, block.ref)
            worth *= max(REPORT_LEAST, 2 ** (-turns / REPORT_HALF_LIFE))
        if said.is_narration(block.text) and len(block.text) < SHORT:
            worth *= ANNOUNCED
        if any(error in block.text for error, passed in self._mended if block.ref < passed):
            worth *= MENDED
        if self._is_overtaken(block):
            worth *= OVERTAKEN
        if self._is_worked_off(block):
            worth *= WORKED_OFF
        goal = self._compare_with_goal(block)
        near = self.picker.likeness(self._index[block.ref, block.place], self._topic)
        return worth * cue_of(block.text) * (1 + goal) * (1 + NEAR * near)

    def _compare_with_goal(self, block: Block) -> float:
        """How much of the goal a block speaks of, 0 to 1."""
        return self.task.relevance.overlap(f"{block.heading} {block.text}")

    def _is_overtaken(self, block: Block) -> bool:
        """Whether a file that a block names was edited since, or the user answered what it offers."""
        if _OFFERS.search(block.text):
            return bool(self._asked) and block.ref < self._asked[-1]
        named = (self._edited.get(name, 0) for name in _FILE_NAME.findall(block.text))
        return any(ref > block.ref + OVERTAKEN_AFTER for ref in named)

    def _is_worked_off(self, block: Block) -> bool:
        """Whether nearly all code that a finding names was edited after it."""
        if not _FINDING.search(block.text):
            return False
        names = set(_NAME_IN_CODE.findall(" ".join(_CODE_SPAN.findall(block.text))))
        done = sum(self._edited_names.get(name, 0) > block.ref for name in names)
        return bool(names) and done >= WORKED_OFF_SHARE * len(names)

    @cached_property
    def _mended(self) -> list[tuple[str, int]]:
        """Error texts of commands that passed later, and when: what was said of them before is out of date."""
        errors = (
            (_ERROR_NAME.search(lesson.error), lesson.passed) for lesson in self.facts.lessons
        )
        return [(match[0], passed) for match, passed in errors if match and passed]

    @cached_property
    def _edited(self) -> dict[str, int]:
        """The names of edited files with the ref of the last edit of each."""
        return {f.path.rpartition("/")[2]: f.edits[-1] for f in self.facts.files[::-1] if f.edits}

    @cached_property
    def _edited_names(self) -> dict[str, int]:
        """The names of code in what edits took away and put in, with the ref of the last edit of each.

        Of a long change the beginning is looked at, and of all the newest ones.
        """
        found: dict[str, int] = {}
        left = EDITS_LOOKED_AT
        for entry in reversed(self.entries):
            call = entry.tool
            if left <= 0 or call is None or not call.changes or call.status != "ok":
                continue
            for change in call.changes:
                text = f"{change.old[:LONG_CHANGE]}\n{change.new[:LONG_CHANGE]}"
                left -= len(text)
                for name in set(_NAME_IN_CODE.findall(text)):
                    found.setdefault(name, entry.ref)
        return found

    @cached_property
    def _topic(self) -> frozenset[str]:
        """Words of the user's last messages and of the agent's last conclusion: what the work is about."""
        asked = [users_words(t.asked) for t in self.turns[-TOPIC_TURNS:] if t.asked]
        concluded = [t.conclusion.text for t in self.turns[-1:] if t.conclusion]
        return frozenset(
            word for text in (*asked, *concluded) for word in telling_words(text[:TOPIC_TEXT])
        )
