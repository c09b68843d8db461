"""Write the draft from facts and excerpts alone; no model is needed.

Every line is a fact that a rule can prove, or the thread's own words. Sections are filled in the
order of their worth to a successor; what room is left goes to what earlier turns concluded.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from msgspec.structs import replace

from tasuki.draft import said, state
from tasuki.draft.authors import choices
from tasuki.draft.authors.task import Task
from tasuki.draft.block_worth import BlockWorth
from tasuki.draft.blocks import Block, split_blocks
from tasuki.draft.brief import (
    MOST_UNQUOTED,
    UNQUOTED,
    command_line,
    file_line,
    item_line,
    render_context,
    trimmed,
)
from tasuki.draft.entries import users_words
from tasuki.draft.excerpts import (
    MESSAGE,
    ExcerptPicker,
    block_length,
    cue_of,
    join_lists,
    quote_blocks,
    without_offers,
)
from tasuki.draft.files import short_names
from tasuki.draft.rulings import quote_rulings
from tasuki.draft.steps import last_steps
from tasuki.draft.text import own_words, sentences, shorten
from tasuki.draft.turns import concluding_refs, split_turns
from tasuki.harness.jsonl import drop_torn
from tasuki.model import CommandItem, Draft, Entry, FileItem, Item

ORDER = ("stopped", "state", "asked", "previous", "steps", "files", "commands", "context")
AUTHORED_ORDER = (
    "stopped",
    "state",
    "steps",
    "decisions",
    "questions",
    "asked",
    "previous",
    "files",
    "commands",
    "context",
)
"""Sections in the order in which they get their room."""
STOPPED = 4_800
"""Characters of the last messages that are quoted, at most: 1,200 tokens."""
SHARES = {
    "stopped": 0.28,
    "state": 0.15,
    "asked": 0.32,
    "steps": 0.07,
    "files": 0.14,
    "commands": 0.14,
    "previous": 0.12,
    "decisions": 0.15,
    "questions": 0.1,
}
"""Of the room, what each section may take at most; the conclusions take what is left."""
KEPT = {"context": 0.22, "files": 0.08, "commands": 0.05, "steps": 0.03}
KEEPS_NOTHING = ("stopped", "state")
"""Shares of the room that sections keep for those after them; the first ones come before all."""
STEPS = 9
ENOUGH = 0.8
"""Share of its room under which no earlier message is quoted."""
LIST, ROOM_FOR_LISTS = 320, 45
"""Characters up to which a list is quoted whole or not at all, and the room that takes for each of them."""
LOOKED_AT = 150_000
"""Characters of the agent's newest messages that excerpts are taken from; a harness's summaries besides."""
REACH = 40
"""Entries back within which an earlier message still tells where the thread stopped."""
IN_HAND, MID_TURN_LOOKED_AT = 3, 3
WHOLE, SHORT, TELLING, UNQUOTED_ROOM = 700, 160, 120, 180
WHOSE = {"tool": "A sub-agent reported", "compaction": "The harness's summary of what was before"}
"""Whose words a quoted message is, where they are not the agent's."""
HEADING = 42
"""Characters that a section's heading takes."""


def write(
    task: Task,
    base: Draft,
    *,
    budget: int,
    handoff_id: str,
    reasons: bool,
    preamble: bool,
    authored: Draft | None = None,
) -> Draft:
    """A draft that fits `budget` tokens without the goal; what did not fit is in `left_out`.

    `base` holds the sections that no author writes: metadata, drift, skill. `authored` is what an
    author wrote, checked: its context, decisions and questions, and the files, commands and words of
    the user that it chose.
    """
    room = budget * 4 - len(render_context(base, handoff_id, preamble=preamble)) - 8
    composer = Composer(task, room, reasons, authored)
    draft = replace(base, **composer.sections(), left_out=tuple(composer.left_out[:60]))
    return trimmed(draft, handoff_id, budget, preamble=preamble)


ADVISED = 0.12
"""How much of the goal a sentence shares, to advise against it."""
_AGAINST = re.compile(
    r"\b(?:leave \S+ \S+ out|leave (?:it|that|this|them) out|don'?t|do not|wouldn'?t|would not|shouldn'?t|not worth|"
    r"skip|avoid|rather not|no need)\b",
    re.IGNORECASE,
)


class Composer:
    """Fills the sections of one draft, and remembers what they told, so that nothing is told twice."""

    def __init__(self, task: Task, room: int, reasons: bool, authored: Draft | None = None) -> None:
        self.task = task
        self.authored = authored or Draft(goal=task.goal)
        self.is_authored = authored is not None
        self.thread, self.facts = task.thread, task.derived.facts
        self.whole = max(room, 0)
        self.room = self.whole
        self.reasons = reasons
        self.left_out: list[Item] = []
        self._told: list[Item] = []
        self.turns = split_turns(self.thread.entries)
        self.answered = max((t.asked.ref for t in self.turns if t.asked and t.said), default=0)
        self.concluding = concluding_refs(self.turns)
        self.blocks = self._blocks()
        self.picker = ExcerptPicker(
            self.blocks, [own_words(users_words(t.asked)) for t in self.turns if t.asked]
        )
        self.picker.tell(task.goal.text)
        self._kinds = {e.ref: e.kind for e in self.thread.entries}
        self._of_message: dict[int, list[int]] = {}
        for index, block in enumerate(self.blocks):
            self._of_message.setdefault(block.ref, []).append(index)
        self.last = self.thread.entries[-1].ref if self.thread.entries else 0

    def _blocks(self) -> list[Block]:
        whole_list = min(LIST, self.whole // ROOM_FOR_LISTS)
        newest: list[list[Block]] = []
        left = LOOKED_AT
        last = next((e.ref for e in reversed(self.thread.entries) if e.kind == "assistant"), 0)
        for entry in reversed(self.thread.entries):
            if (text := _message(entry)) and (left > 0 or entry.kind == "compaction"):
                left -= len(text)
                if (
                    entry.kind == "assistant"
                    and entry.ref not in self.concluding
                    and entry.ref != last
                ):
                    text = said.without_announcement(text)
                blocks = join_lists(split_blocks(text[:LOOKED_AT], entry.ref), whole_list)
                newest.append(blocks if entry.ref > self.answered else without_offers(blocks))
        return [block for blocks in reversed(newest) for block in blocks]

    def sections(self) -> dict[str, tuple[Any, ...]]:
        """All sections, filled in the order of worth."""
        found: dict[str, tuple[Any, ...]] = {}
        for section in AUTHORED_ORDER if self.is_authored else ORDER:
            if self._share(section) > HEADING:
                items = getattr(self, f"_{section}")(self._share(section) - HEADING)
                found[section] = self._fit(section, items)
                self._told += [as_item(item) for item in found[section]]
        return found

    def _share(self, section: str) -> int:
        """Characters that a section may take; the last ones keep a part for the conclusions."""
        order = AUTHORED_ORDER if self.is_authored else ORDER
        later = order[order.index(section) + 1 :]
        kept = sum(KEPT.get(other, 0.0) for other in later) if section not in KEEPS_NOTHING else 0.0
        return min(self.room - int(self.whole * kept), int(self.whole * SHARES.get(section, 1.0)))

    def _fit(self, section: str, items: Sequence[Any]) -> tuple[Any, ...]:
        """The first items that fit into what is left of the room."""
        kept: list[Any] = []
        room = self.room - HEADING
        for item in items:
            cost = len(_line(item)) + 1
            if cost <= room:
                room -= cost
                kept.append(item)
            else:
                self.left_out.append(as_item(item))
        if kept:
            self.room = room
        return tuple(kept)

    # -- sections ----------------------------------------------------------------------

    def _decisions(self, room: int) -> list[Item]:
        """What an author wrote; without one nothing proves a decision but its own words, which are quoted."""
        return list(self.authored.decisions)

    def _questions(self, room: int) -> list[Item]:
        return list(self.authored.questions)

    def _stopped(self, room: int) -> list[Item]:
        """The files in hand, and the newest messages: the last one, and before it the last that concludes."""
        items = [*self._in_hand(), *self._unanswered()]
        room = min(room, STOPPED) - sum(len(_line(item)) + 1 for item in items)
        enough = room * ENOUGH
        chosen: list[int] = []
        spoken = [
            r
            for r in dict.fromkeys(b.ref for b in reversed(self.blocks))
            if self._kinds[r] == "assistant"
        ]
        for number, ref in enumerate(spoken):
            own = self._of_message[ref]
            if number and (
                (ref not in self.concluding and number > MID_TURN_LOOKED_AT)
                or self._only_announces(own)
            ):
                continue
            if number and self.last - ref > REACH:
                break
            size = sum(block_length(self.blocks[i].text) for i in own) + MESSAGE
            if size <= room:
                self.picker.take_all(own)
                chosen += own
                room -= size
            else:
                ends, room = self.picker.pick(own[:1] + own[-1:], room - MESSAGE, lambda block: 1.0)
                picked, room = self.picker.pick(own, room, self._end_worth)
                chosen += ends + picked
                break
            if room < enough:
                break
        self.picker.taken.update(
            i for ref in {self.blocks[c].ref for c in chosen} for i in self._of_message[ref]
        )
        return [*items, *map(self._overruled, self._quotes(chosen))]

    def _overruled(self, item: Item) -> Item:
        """A last message, marked where it advises against what the goal then asks for."""
        asked = self.turns[-1].asked if self.turns else None
        is_last = bool(item.refs) and item.refs[0] == self.task.relevance.last_spoken
        is_last = is_last and not (asked and asked.text.strip() == self.task.goal.text.strip())
        advice = (s for s in sentences(item.text) if is_last and _AGAINST.search(s))
        if any(self.task.relevance.overlap(s) >= ADVISED for s in advice):
            return replace(item, label="Said before the goal, which overrules its advice")
        return item

    def _quotes(self, chosen: Sequence[int]) -> list[Item]:
        """Chosen blocks as items, a message each; it is said whose words are not the agent's own."""
        return [
            Item(text=text, refs=(ref,), label=WHOSE.get(self._kinds[ref], ""))
            for ref, text in quote_blocks(self.blocks, chosen)
        ]

    def _in_hand(self) -> Iterator[Item]:
        """The files that the work is most likely to go on with."""
        if paths := [f.path for f in choices.ranked_files(self.task) if f.edits or f.reads][
            :IN_HAND
        ]:
            yield Item(text=", ".join(f"`{path}`" for path in paths), label="Files in hand")

    def _unanswered(self) -> Iterator[Item]:
        """The user's last message, where the agent did not answer it."""
        turn = self.turns[-1] if self.turns else None
        if turn and turn.asked and not turn.said and (words := own_words(users_words(turn.asked))):
            text = f'"{shorten(" ".join(words.split()), WHOLE)}"'
            yield Item(
                text=text, refs=(turn.asked.ref,), label="The user's last message, not yet answered"
            )

    def _only_announces(self, own: Sequence[int]) -> bool:
        return (
            len(own) == 1
            and len(self.blocks[own[0]].text) < SHORT
            and said.is_narration(self.blocks[own[0]].text)
        )

    def _end_worth(self, block: Block) -> float:
        return cue_of(block.text) * (1 + self.task.relevance.overlap(block.text))

    def _state(self, room: int) -> list[Item]:
        items = list(state.items(self.thread, self.facts))
        for item in items:
            self.picker.tell(item.text)
        return _within(items, room, self.left_out)

    def _asked(self, room: int) -> list[Item]:
        task = self.task
        items, rest = quote_rulings(self.turns, task.stated, task.relevance, room, task.goal.text)
        quoted = {item.refs[0]: item.text for item in items if item.refs}
        chosen = [
            i
            for i in self.authored.asked
            if i.text.strip('"')[:80] not in quoted.get(next(iter(i.refs), 0), "")
        ]
        items = sorted([*items, *chosen], key=lambda item: item.refs[:1])
        for item in items:
            self.picker.tell(item.text)
        self.left_out += rest
        return items

    def _previous(self, room: int) -> list[Item]:
        items = [Item(text=q.text, refs=(q.ref,)) for q in self.facts.previous]
        return _within(items, room, self.left_out)

    def _steps(self, room: int) -> list[Item]:
        """What was done after the agent last said how things stand; before that, it told so itself."""
        names = short_names(f.path for f in self.facts.files)
        told = {check.refs[-1] for check in self.facts.last_check}
        steps = last_steps(self.thread, self.task.derived.runs, names, STEPS, told)
        since = max((r for r in self.concluding if self._length_of(r) >= SHORT), default=0)
        return _within([s for s in steps[::-1] if s.refs[0] > since], room, [])[::-1]

    def _files(self, room: int) -> list[FileItem]:
        """The files that an author chose, with its reasons, then those that are ranked best."""
        chosen = [f if self.reasons else replace(f, reason="") for f in self.authored.files]
        named = {f.path for f in chosen}
        limit = max(self.task.limits["files"] - len(chosen), 0)
        ranked = (
            f
            for f in choices.files(self.task, self.task.limits["files"], self.reasons)
            if f.path not in named
        )
        return _within([*chosen, *islice(ranked, limit)], room, self.left_out)

    def _commands(self, room: int) -> list[CommandItem]:
        checks = {check.refs[-1] for check in self.facts.last_check}
        limit = self.task.limits["commands"]
        chosen = list(self.authored.commands)
        found = choices.commands(
            self.facts.commands,
            self.task.relevance,
            max(limit - len(chosen), 0),
            checks,
            [c.command for c in chosen],
        )
        return _within([*chosen, *found], room, self.left_out)

    def _context(self, room: int) -> list[Item]:
        """What an author wrote; then the blocks of earlier turns that say most of what was not told yet."""
        first = [
            *state.goal_errors(self.thread, self.facts, self.task.goal.text),
            *state.goal_quotes(self.thread, self.task.goal.text),
        ]
        written = _within([*first, *self.authored.context], room, self.left_out)
        for item in written:
            self.picker.tell(item.text)
        room -= sum(len(_line(item)) + 1 for item in written)
        picked, _ = self.picker.pick(
            range(len(self.blocks)), room - UNQUOTED_ROOM, self._worth.weigh
        )
        quoted = [*written, *self._quotes(picked)]
        cited = {ref for item in (*quoted, *self._told) for ref in item.refs}
        others = self._telling_messages() - cited
        return (
            [*quoted, Item(text=UNQUOTED, refs=tuple(sorted(others)[-MOST_UNQUOTED:]))]
            if others
            else quoted
        )

    @cached_property
    def _worth(self) -> BlockWorth:
        return BlockWorth(self.task, self.turns, self.picker)

    def _length_of(self, ref: int) -> int:
        """Characters of a message."""
        return sum(len(self.blocks[i].text) for i in self._of_message.get(ref, ()))

    def _telling_messages(self) -> set[int]:
        """Messages of the agent that say more than what it does next."""
        length = {ref: self._length_of(ref) for ref in self._of_message}
        return {
            ref
            for ref, size in length.items()
            if size >= TELLING or (ref in self.concluding and size >= SHORT)
        }


def _message(entry: Entry) -> str:
    """What an entry says in sentences: the agent's words, a harness's summary, a sub-agent's report."""
    call = entry.tool
    if call is None:
        return entry.text if entry.kind in ("assistant", "compaction") else ""
    is_report = call.kind == "agent" and call.status == "ok" and not call.background
    return drop_torn(call.output) if is_report and len(call.output) >= TELLING else ""


def _line(item: Any) -> str:
    if isinstance(item, FileItem):
        return file_line(item)
    return command_line(item) if isinstance(item, CommandItem) else item_line(item)


def _within(items: Sequence[Any], room: int, left_out: list[Item]) -> list[Any]:
    """The first items that fit into some characters, and those after a long one that fit too."""
    kept = []
    for item in items:
        cost = len(_line(item)) + 1
        if cost <= room:
            room -= cost
            kept.append(item)
        else:
            left_out.append(as_item(item))
    return kept


def as_item(item: Any) -> Item:
    """A line of any section as an item of the list of what was left out."""
    if isinstance(item, Item):
        return item
    if isinstance(item, FileItem):
        return Item(text=f"{item.path} — {item.reason}", refs=item.refs)
    return Item(text=f"`{item.command}` — {item.note}", refs=item.refs)
