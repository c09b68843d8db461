"""Write the draft from facts and excerpts alone; no model is needed.

Every line is a fact that a rule can prove, or the thread's own words. Sections are filled
in the order of their worth to a successor; the remaining room goes to what earlier turns
concluded.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from tasuki.draft.authors import choices
from tasuki.draft.authors.author import AUTHORED_SHARE, AuthorTask
from tasuki.draft.brief import (
    count_context_tokens,
    fit_room,
    measure_line,
    render_context,
    trim_to_budget,
)
from tasuki.draft.facts import state
from tasuki.draft.facts.files import find_short_names
from tasuki.draft.facts.rules import list_rules
from tasuki.draft.rank import guides
from tasuki.draft.rank.block_worth import BlockWorth
from tasuki.draft.rank.blocks import MessageBlock, split_blocks
from tasuki.draft.rank.excerpts import (
    MESSAGE_COST,
    ExcerptPicker,
    WordWeights,
    extract_message,
    measure_block,
    quote_blocks,
    weigh_cue,
    weigh_words,
)
from tasuki.draft.rank.goal_object import find_goal_object
from tasuki.draft.rank.history import MAX_LEFT_OUT, list_last_steps, quote_rulings
from tasuki.draft.rank.printed import list_printed, rank_names
from tasuki.draft.text import language_cues
from tasuki.draft.text.entries import (
    extract_user_words,
    find_concluding_refs,
    find_said_after_abort,
    split_turns,
)
from tasuki.draft.text.split import (
    CHARACTERS_PER_TOKEN,
    fold_whitespace,
    measure_text,
    shorten,
    split_sentences,
)
from tasuki.model import CommandItem, Draft, Entry, FileItem, Item
from tasuki.patterns import compile_pattern

ORDER = (
    "stopped", "state", "files", "commands", "asked", "about", "rules", "previous", "steps",
    "context", "printed",
)  # fmt: skip
"""Sections in the order in which they get their room."""
AUTHORED = ("said", "decisions", "questions")
"""What an author wrote, which gets its room before all others; `said` is its part of the context."""
MAX_STOPPED = 4_800
"""Maximum characters of the last messages that are quoted: 1,200 tokens."""
MAX_SHARES = {
    "stopped": 0.42, "state": 0.15, "asked": 0.32, "about": 0.18, "rules": 0.15, "steps": 0.07,
    "files": 0.14, "commands": 0.14, "previous": 0.12, "said": 0.5, "decisions": 0.2, "questions": 0.1,
}  # fmt: skip
"""The maximum share of the room for each section; the conclusions get the remainder."""
LEAN_ROOM = 6_000
"""Characters below which a brief is lean: the last message has more room, the goal's words and guides none."""
LEAN_SHARES = MAX_SHARES | {"stopped": 0.6, "about": 0.0, "rules": 0.0}
NAMES_SHARE, NAMES_FROM = 0.1, 2_000
"""Share of the characters beyond some for the names at files."""
MAX_STEPS = 9
RULE_LENGTH = 400
"""Characters that cost a line of a guide one point of its worth."""
ENOUGH_ROOM = 0.8
"""Share of its room under which no earlier message is quoted."""
EXCERPT_CHARACTERS, MOST_SUMMARIES = 150_000, 2
"""Characters of the agent's newest messages for excerpts, and the newest summaries of the harness, which are extra."""
STOPPED_REACH = 40
"""Entries back within which an earlier message still shows where the thread stopped."""
MAX_MID_TURN = 3
WHOLE, SHORT = 700, 160
DENIAL = 160
"""Characters up to which a message may only deny the one before it."""
SPEAKER_LABELS = {
    "tool": "A sub-agent reported",
    "compaction": "The harness's summary of what was before",
}
"""Labels of quoted messages that are not the agent's own words."""
HEADING_COST = 42
"""Characters that a section's heading takes."""


def write_offline_draft(
    task: AuthorTask,
    base: Draft,
    *,
    budget: int,
    handoff_id: str,
    reasons: bool,
    preamble: bool,
    authored: Draft | None = None,
) -> Draft:
    """Return a draft that fits `budget` tokens without the goal; the rest is in `left_out`.

    `base` holds the sections no author writes: metadata, drift, skill. `authored` is what an
    author wrote, checked: its context, decisions and questions, and the files, commands and
    words of the user that it chose.
    """
    bare = replace(base, metadata=())
    frame = measure_text(render_context(bare, handoff_id, preamble=preamble)) + 8
    room = budget * CHARACTERS_PER_TOKEN - frame
    composer = DraftComposer(task, room, reasons, authored)
    draft = replace(bare, **composer.fill_sections())
    draft = replace(draft, left_out=tuple(composer.left_out[:MAX_LEFT_OUT]))
    draft = trim_to_budget(draft, handoff_id, budget, preamble=preamble)
    whole = replace(draft, metadata=base.metadata)
    fits = count_context_tokens(render_context(whole, handoff_id, preamble=preamble)) <= budget
    return whole if fits else draft


ADVICE_OVERLAP = 0.12
"""Share of the goal in a sentence, from which on its advice is about the goal."""
_AGAINST = compile_pattern(
    r"\b(?:leave \S+ \S+ out|leave (?:it|that|this|them) out|don'?t|do not|wouldn'?t|would not|shouldn'?t|not worth|"
    r"skip|avoid|rather not|no need)\b",
    re.IGNORECASE,
)


class DraftComposer:
    """Fills the sections of one draft, and remembers what they contain to avoid repetition."""

    def __init__(
        self, task: AuthorTask, room: int, reasons: bool, authored: Draft | None = None
    ) -> None:
        self.task = task
        self.authored = authored or Draft(goal=task.goal)
        self.is_authored = authored is not None
        self.thread, self.facts = task.thread, task.derived.facts
        self.whole = max(room, 0)
        chosen = sum(map(measure_line, self.authored.asked))
        chosen += HEADING_COST * bool(chosen)
        self.reserved = min(chosen, int(self.whole * MAX_SHARES["asked"]))
        """Characters that are kept for the words of the user that an author chose."""
        self.room = self.whole - self.reserved
        self.reasons = reasons
        self.left_out: list[Item] = []
        self.quoted: list[str] = []
        """What the sections that are filled quote."""
        self.turns = split_turns(self.thread.entries)
        self.last_asked = max((t.prompt.ref for t in self.turns if t.prompt), default=0)
        self.concluding = find_concluding_refs(self.turns)
        self._denied = task.derived.remember("denied", self._find_denied)
        """Messages that ended a turn, with the user's next one, which says that it is not so."""
        self._aborted = find_said_after_abort(self.thread.entries, self.concluding)
        self.blocks = task.derived.remember("blocks", self._collect_blocks)
        quoted = {block.ref for block in self.blocks}
        self._kinds = {e.ref: e.kind for e in self.thread.entries if e.ref in quoted}
        """Whose words each message is that blocks were cut from."""
        weights = task.derived.remember("words", self._weigh_words)
        self.picker = ExcerptPicker(self.blocks, weights)
        self.picker.note_text(task.goal.text)
        self._blocks_by_ref: dict[int, list[int]] = {}
        for index, block in enumerate(self.blocks):
            self._blocks_by_ref.setdefault(block.ref, []).append(index)
        self.last = self.thread.entries[-1].ref if self.thread.entries else 0

    def _find_own_words(self, prompt: Entry) -> str:
        """Return what the user wrote in a message, without the middle of long pastes."""
        return self.task.derived.own_words.get(prompt.ref) or extract_user_words(prompt)

    def _weigh_words(self) -> WordWeights:
        own_words = (self._find_own_words(t.prompt) for t in self.turns if t.prompt)
        return weigh_words(self.blocks, own_words)

    def _find_denied(self) -> dict[int, Entry]:
        return {
            turn.conclusion.ref: after.prompt
            for turn, after in pairwise(self.turns)
            if turn.conclusion and after.prompt and after.prompt.is_by_hand
            if len(after.prompt.text) <= DENIAL and language_cues.is_denial(after.prompt.text)
        }

    def _collect_blocks(self) -> list[MessageBlock]:
        newest: list[list[MessageBlock]] = []
        left, summaries = EXCERPT_CHARACTERS, MOST_SUMMARIES
        last = next((e.ref for e in reversed(self.thread.entries) if e.kind == "assistant"), 0)
        for entry in reversed(self.thread.entries):
            is_summary = entry.kind == "compaction"
            is_read = summaries > 0 if is_summary else left > 0
            if is_read and (text := extract_message(entry)):
                left -= len(text)
                summaries -= is_summary
                if entry.kind == "assistant" and entry.ref != last:
                    talk = [language_cues.is_offer] * (entry.ref < self.last_asked)
                    talk += [language_cues.is_announcement] * (entry.ref not in self.concluding)
                    text = language_cues.strip_talk(text, *talk)
                newest.append(split_blocks(text[:EXCERPT_CHARACTERS], entry.ref))
        return [block for blocks in reversed(newest) for block in blocks]

    def fill_sections(self) -> dict[str, tuple[Any, ...]]:
        """Return all sections, filled in the order of worth."""
        filled: dict[str, tuple[Any, ...]] = {}
        for section in (*AUTHORED, *ORDER) if self.is_authored else ORDER:
            if section == "asked":
                self.room += self.reserved
            room = self._compute_share(section) - HEADING_COST
            if room > 0:
                items = getattr(self, f"_{section}")(room)
                name = "context" if section == "said" else section
                fitting = fit_room(items, self.room - HEADING_COST, self.left_out)
                if fitting:
                    self.room -= HEADING_COST + sum(map(measure_line, fitting))
                filled[name] = (*filled.get(name, ()), *fitting)
                self.quoted += [getattr(item, "text", "") for item in filled[name]]
        return filled

    def _compute_share(self, section: str) -> int:
        shares = LEAN_SHARES if self.whole < LEAN_ROOM else MAX_SHARES
        share = shares.get(section, 1.0)
        if section == "previous":  # What the thread itself has to say needs no more than it has.
            share = max(share, 1.0 - sum(len(b.text) for b in self.blocks) / max(self.whole, 1))
        if section in AUTHORED:
            share = min(share, AUTHORED_SHARE - 1.0 + self.room / max(self.whole, 1))
        return min(self.room, int(self.whole * share))

    # -- sections ----------------------------------------------------------------------

    def _decisions(self, room: int) -> list[Item]:
        """Return what an author wrote. Without an author only a decision's own words prove it, and those are quoted."""
        return list(self.authored.decisions)

    def _questions(self, room: int) -> list[Item]:
        return list(self.authored.questions)

    def _stopped(self, room: int) -> list[Item]:
        """Return the newest messages: the last one, and before it the last that concludes."""
        items = list(self._list_unanswered(max(WHOLE, room * 2 // 3)))
        room = min(room, MAX_STOPPED) - sum(map(measure_line, items))
        enough = room * ENOUGH_ROOM
        chosen: list[int] = []
        measure = self.task.relevance.measure_overlap
        refs = dict.fromkeys(b.ref for b in reversed(self.blocks))
        for number, ref in enumerate(r for r in refs if self._kinds[r] == "assistant"):
            own = self._blocks_by_ref[ref]
            first = self.blocks[own[0]].text
            announces = len(own) == 1 and len(first) < SHORT and language_cues.is_narration(first)
            is_passing = ref not in self.concluding and number > MAX_MID_TURN
            if number and (is_passing or announces):
                continue
            if number and self.last - ref > STOPPED_REACH:
                break
            size = sum(measure_block(self.blocks[i].text) for i in own) + MESSAGE_COST
            if size <= room:
                self.picker.mark_taken(own)
                chosen += own
                room -= size
            else:
                pick = self.picker.pick_blocks
                ends, room = pick(own[:1] + own[-1:], room - MESSAGE_COST, lambda block: 1.0)
                rest, room = pick(own, room, lambda b: weigh_cue(b.text) * (1 + measure(b.text)))
                chosen += ends + rest
                break
            if room < enough:
                break
        return [*items, *map(self._mark_overruled, self._build_quotes(chosen))]

    def _mark_overruled(self, item: Item) -> Item:
        """Return a last message, marked if it advises against what the goal then asks for."""
        asked = self.turns[-1].prompt if self.turns else None
        is_last = bool(item.refs) and item.refs[0] == self.task.relevance.last_spoken
        is_last = is_last and not (asked and asked.text.strip() == self.task.goal.text.strip())
        advice = (s for s in split_sentences(item.text) if is_last and _AGAINST.search(s))
        if any(self.task.relevance.measure_overlap(s) >= ADVICE_OVERLAP for s in advice):
            return replace(item, label="Said before the goal, which overrules its advice")
        return item

    def _build_quotes(self, chosen: Sequence[int]) -> list[Item]:
        """Return chosen blocks as items, one per message.

        A label marks words that are not the agent's, a conclusion that the user then denied, and what
        was said within a turn after a call was aborted.
        """
        items: list[Item] = []
        for ref, text in quote_blocks(self.blocks, chosen):
            label, refs = SPEAKER_LABELS.get(self._kinds[ref], ""), [ref]
            if denied := self._denied.get(ref):
                words = shorten(fold_whitespace(denied.text), DENIAL)
                label, refs = f'Said before the user wrote "{words}"', [ref, denied.ref]
            elif call := self._aborted.get(ref):
                label, refs = "Said after a call was aborted", [ref, call]
            items.append(Item(text=text, refs=tuple(refs), label=label))
        return items

    def _list_unanswered(self, limit: int) -> Iterator[Item]:
        """Yield the user's last message if the agent did not answer it, whole if it fits `limit`."""
        turn = self.turns[-1] if self.turns else None
        asked = turn.prompt if turn and not turn.messages else None
        if asked and (words := self._find_own_words(asked)):
            text = f'"{shorten(" ".join(words.split()), limit)}"'
            label = "The user's last message, not yet answered"
            yield Item(text=text, refs=(asked.ref,), label=label)

    def _state(self, room: int) -> list[Item]:
        items = [*self.authored.state, *state.list_state_items(self.thread, self.facts)]
        for item in items:
            self.picker.note_text(item.text)
        return fit_room(items, room, self.left_out)

    def _asked(self, room: int) -> list[Item]:
        task = self.task
        stated = task.derived.statements
        rules = task.derived.remember("rules", lambda: list_rules(self.thread, stated))
        left = room - self.reserved
        items, rest = quote_rulings(
            self.turns, task.derived, task.open_statements, task.relevance, left, rules
        )
        quoted = {item.refs[0]: item.text for item in items if item.refs}
        for one in self.authored.asked:
            if one.text.strip('"')[:80] not in quoted.get(next(iter(one.refs), 0), ""):
                items.append(one)
        items.sort(key=lambda item: item.refs[:1])
        for item in items:
            self.picker.note_text(item.text)
        self.left_out += rest
        return items

    def _about(self, room: int) -> list[Item]:
        goal = self.task.goal.text
        errors = state.find_goal_errors(self.thread, self.facts, goal)
        seen = [*errors, *state.find_goal_quotes(self.thread, goal)]
        found = fit_room(seen, room, self.left_out)
        room -= sum(map(measure_line, found))
        quoted = "\n".join(self.quoted)
        found += find_goal_object(self.thread, self.task.relevance, quoted, room)
        for item in found:
            self.picker.note_text(item.text)
        return found

    def _rules(self, room: int) -> list[Item]:
        """Return the lines of guides that bind hardest and are nearest to the goal, by guide."""

        def score_line(line: guides.BindingLine) -> float:
            near = self.task.relevance.measure_overlap(f"{line.heading} {line.text}")
            return line.weight * (1 + near) - len(line.text) / RULE_LENGTH

        longest = max(guides.MAX_LINE, room // 8)
        lines = self.task.derived.remember(
            f"guides {longest}", lambda: guides.list_binding_lines(self.thread, longest)
        )
        chosen: dict[str, list[guides.BindingLine]] = {}
        for line in sorted(lines, key=score_line, reverse=True):
            cost = measure_text(line.shown) + 3
            cost += 0 if line.path in chosen else len(line.path) + 12
            if cost <= room:
                room -= cost
                chosen.setdefault(line.path, []).append(line)
        items = []
        for path, own in chosen.items():
            text = "\n".join(line.shown for line in sorted(own, key=attrgetter("place")))
            items.append(Item(text=text, refs=(own[0].ref,), label=f"`{path}`"))
        return items

    def _previous(self, room: int) -> list[Item]:
        items = [Item(text=q.text, refs=(q.ref,)) for q in self.facts.previous]
        return fit_room(items, room, self.left_out)

    def _steps(self, room: int) -> list[Item]:
        """Return what was done after the agent last described the state. Earlier steps are in that description."""
        names = find_short_names(f.path for f in self.facts.files)
        check_refs = {check.refs[-1] for check in self.facts.last_check}
        steps = list_last_steps(self.thread, self.task.derived.runs, names, MAX_STEPS, check_refs)
        sizes = {
            r: sum(len(self.blocks[i].text) for i in n) for r, n in self._blocks_by_ref.items()
        }
        since = max((r for r in self.concluding if sizes.get(r, 0) >= SHORT), default=0)
        return fit_room([s for s in steps[::-1] if s.refs[0] > since], room, [])[::-1]

    def _files(self, room: int) -> list[FileItem]:
        """The files that an author chose, with its reasons, then those that are ranked best."""
        chosen = [f if self.reasons else replace(f, reason="") for f in self.authored.files]
        named = {f.path for f in chosen}
        limit = self.task.limits["files"]
        ranked = (f for f in choices.choose_files(self.task, limit) if f.path not in named)
        files = [*chosen, *islice(ranked, max(limit - len(chosen), 0))]
        fitting = fit_room(files, room, self.left_out)
        room_of_names = int((self.whole - NAMES_FROM) * NAMES_SHARE)
        return self._add_names(fitting, room_of_names) if self.reasons else fitting

    def _add_names(self, files: Sequence[FileItem], room: int) -> list[FileItem]:
        """Return files with the names that the last calls used in them."""
        names: dict[str, list[str]] = {f.path: [] for f in files if not f.reason}
        for name, path in rank_names(self.thread):
            if (own := names.get(path)) is not None and len(name) + 4 <= room:
                room -= len(name) + 4
                own.append(f"`{name}`")
        return [
            replace(f, reason=", ".join(own)) if (own := names.get(f.path)) else f for f in files
        ]

    def _commands(self, room: int) -> list[CommandItem]:
        chosen = list(self.authored.commands)
        limit = max(self.task.limits["commands"] - len(chosen), 0)
        lines = [c.command for c in chosen]
        found = choices.choose_commands(self.task.derived, self.task.relevance, limit, lines)
        return fit_room([*chosen, *found], room, self.left_out)

    def _said(self, room: int) -> list[Item]:
        """Return what an author wrote beside decisions and questions."""
        written = fit_room(self.authored.context, room, self.left_out)
        for item in written:
            self.picker.note_text(item.text)
        return written

    def _context(self, room: int) -> list[Item]:
        """Return the blocks of earlier turns that add most."""
        worth = BlockWorth(self.task, self.turns, self.blocks)
        picked, _ = self.picker.pick_blocks(range(len(self.blocks)), room, worth.weigh)
        return self._build_quotes(picked)

    def _printed(self, room: int) -> list[Item]:
        return list_printed(self.thread, self.task.derived, self.task.relevance, room)
