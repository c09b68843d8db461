"""Remove from a draft what the thread does not contain. Each drop is reported with its reason.

The same checks run for every author. In what an author wrote, every claim of every sentence
is looked up, and also whether the cited entries speak of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.lookup import (
    contains_command,
    fold_quote,
    is_unique_tail,
    matches_shortened,
)
from tasuki.draft.facts import state
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.text.entries import TextClaim
from tasuki.draft.text.split import extract_terms, fold_whitespace, shorten
from tasuki.model import CommandItem, Draft, Dropped, FileItem, Goal, Item, Thread
from tasuki.patterns import compile_pattern

if TYPE_CHECKING:
    from tasuki.draft.claims.statuses import StatusCheck
    from tasuki.draft.claims.support import SupportFinder

CAPS = {
    "files": 20,
    "commands": 10,
    "context": 12,
    "decisions": 8,
    "questions": 6,
    "state": 30,
    "asked": 20,
    "previous": 20,
}

PLACEHOLDERS = frozenset(
    "none n/a na null nil tbd todo ... … - – — unknown empty placeholder path/to/file path/to/file.ts "
    "no open questions no decisions not applicable nothing undefined string".split()
) | {"no open questions", "not applicable", "none identified", "no decisions", "path/to/other.ts"}
_CODE = compile_pattern(r"(?<!`)`([^`\n]+)`(?!`)")
_DENIALS = frozenset(("no", "not", "never", "none", "nothing"))
"""Words of a sentence that no entry can bear: something was not done."""
_QUOTED = compile_pattern(r'^"(.*?)"(?: — (?:answering: (.*)|refusing: .*))?$', re.DOTALL)
LOOKED_AT_FACTOR = 3
"""How many items of a section are looked at, as a multiple of its cap."""
DROPPED_CHARACTERS = 1_000
"""Characters of a dropped text that are saved."""
NEXT_STEP, DONE, CONSTRAINT = "Next step", "Done", "Constraint"
"""The labels of what an author would do next, and of what it calls finished."""
_UNDER_WAY, _STILL_FAILING = "under way", "failed, and did not pass"
_PENDING = (_UNDER_WAY, NEXT_STEP.lower(), _STILL_FAILING)
"""How labels begin that call something open."""
_MARKED = frozenset(("value", "quote", "unsupported"))
"""Kinds of faults with which an author's item is kept, and says so itself."""
_AGENT_SPEAKS = compile_pattern(
    r"\b(?:agent|assistant|model|claude|codex|gemini|copilot|reviewer|bot|program|server|output|log|error|tests?|compiler|linter"
    r"|message|file|readme|docs?|page|comment|api)\b[^.]{0,60}$",
    re.IGNORECASE,
)
_SPEAKER = compile_pattern(r"\b(?:user|owner|operator|they|he|she)s?\b", re.IGNORECASE)
_PROSE = ("context", "decisions", "questions", "state")
_QUOTED_PROSE = ("context", "decisions", "questions")
"""The prose sections of a draft without an author. Its state is derived from what programs
printed, in our words, and is not checked.
"""
_T = TypeVar("_T", Item, FileItem, CommandItem)


DraftCheck = Callable[[Draft], Draft]
"""Returns a draft without what fails the checks, with the reasons."""


class DropReason(Struct, frozen=True):
    """Why something is dropped: the kind, to count by, and a sentence."""

    kind: str
    text: str
    claim: str = ""
    """What of it was not found."""


_MARK_END = "; unverified)"
"""Ends the mark of an item that is kept although something of it was not found."""
MAX_MARKED = 3
"""Marked items of a section that are kept."""
SPOKEN_SHARE = 0.5
"""Share of a sentence's words that the thread must hold where the entries that it cites do not bear it."""
NOT_BY_USER = DropReason("user", "the user did not write this")
_ABSENT = " does not occur in the thread"


class DraftChecker:
    """Checks drafts for one goal against one thread, whose texts are put together once.

    `caps` are limits of sections that differ from `CAPS`. `validate_files=False` keeps unknown
    paths and labels them unverified.
    """

    def __init__(
        self,
        thread: Thread,
        derived: DerivedFacts,
        goal: Goal,
        caps: dict[str, int],
        validate_files: bool = True,
    ) -> None:
        self.evidence = ThreadEvidence(thread, derived, goal)
        self.lookup, self.facts = self.evidence.lookup, derived.facts
        self.caps = {**CAPS, **caps}
        self.validate_files = validate_files
        self.dropped: list[Dropped] = []
        self._marked: set[tuple[str, str]] = set()
        """Section and text of the items that were kept with a mark."""
        self._has_author = False
        """Whether somebody wrote it: then every claim in its prose is looked up, and its refs too."""

    @cached_property
    def _support(self) -> "SupportFinder":
        from tasuki.draft.claims.support import (
            SupportFinder,  # not needed for a draft without an author
        )

        return SupportFinder(self.evidence.thread.entries)

    @cached_property
    def _statuses(self) -> "StatusCheck":
        from tasuki.draft.claims.statuses import StatusCheck  # as above

        return StatusCheck(self.evidence.thread, self.evidence.derived)

    def check_draft(self, draft: Draft) -> Draft:
        """Return the draft without what failed a check, with the reasons.

        In what is left, every path, command, quote and code span occurs in the thread.
        """
        self.dropped = []
        self._marked.clear()
        self._has_author = draft.authorship.author != "offline"
        if self._has_author:
            self._look_up_claims(draft)
        files = (
            f if f.path in self.evidence.paths else replace(f, path=normalize_path(f.path))
            for f in draft.files
        )
        changed: dict[str, Any] = {
            "files": self._select_within_cap("files", files, lambda f: f.path, self._check_file),
            "commands": self._select_within_cap(
                "commands", draft.commands, lambda c: c.command, self._check_command
            ),
            "asked": self._check_items("asked", draft.asked, self._check_quote),
            "state": tuple(replace(i, refs=self._filter_known_refs(i.refs)) for i in draft.state),
        }
        for section in _PROSE if self._has_author else _QUOTED_PROSE:
            items = getattr(draft, section)
            changed[section] = self._check_items(section, items, self._check_prose)
        return replace(draft, **changed, dropped=(*draft.dropped, *self.dropped))

    def _look_up_claims(self, draft: Draft) -> None:
        """Look up the claims of all sentences together."""
        from tasuki.draft.claims.literals import extract_claims

        caps = self.caps
        most = {**caps, "context": caps["context"] + caps["state"]}
        texts = [i.text for s in _PROSE for i in getattr(draft, s)[: most[s] * LOOKED_AT_FACTOR]]
        texts += [f.reason for f in draft.files[: caps["files"] * LOOKED_AT_FACTOR]]
        texts += [c.note for c in draft.commands[: caps["commands"] * LOOKED_AT_FACTOR]]
        self.lookup.look_up_claims(map(extract_claims, texts))

    def _drop(self, section: str, text: str, reason: DropReason, refs: Sequence[int] = ()) -> None:
        text, why = (shorten(words, DROPPED_CHARACTERS) for words in (text, reason.text))
        self.dropped.append(Dropped(section, text, why, kind=reason.kind, refs=tuple(refs)))

    def _select_within_cap(
        self,
        section: str,
        items: Iterable[_T],
        key: Callable[[_T], str],
        check: Callable[[_T], _T | None],
    ) -> tuple[_T, ...]:
        """Return the items that pass `check`, within the cap; a failed item takes no place."""
        selected: list[_T] = []
        looked_at, places = Counter[str](), Counter[str]()
        for item in self._filter_repeated(section, items, key):
            # What an author says about the state is context with a label.
            is_state = section == "context" and isinstance(item, Item) and bool(item.label)
            capped = "state" if is_state else section
            cap = self.caps[capped]
            looked_at[capped] += 1
            is_over = places[capped] >= cap or looked_at[capped] > cap * LOOKED_AT_FACTOR
            if self._has_author and is_over:
                self._drop(section, key(item), DropReason("cap", f"over the cap of {cap}"))
            elif (accepted := check(item)) is not None:
                places[capped] += not (
                    isinstance(accepted, Item) and accepted.text.endswith(_MARK_END)
                )
                selected.append(accepted)
        return tuple(selected)

    def _filter_repeated(
        self, section: str, items: Iterable[_T], key: Callable[[_T], str]
    ) -> Iterator[_T]:
        """Yield the items without empty ones, placeholders and repetitions."""
        seen: set[str] = set()
        for item in items:
            text = key(item).strip()
            if not text or text.lower().strip(" .<>[]()") in PLACEHOLDERS:
                self._drop(section, text, DropReason("empty", "empty or a placeholder"))
            elif text in seen:
                self._drop(section, text, DropReason("repeated", "said twice"))
            else:
                seen.add(text)
                yield item

    def _filter_known_refs(self, refs: Sequence[int]) -> tuple[int, ...]:
        return tuple(r for r in refs if self.lookup.find_entry(r))

    # -- files and commands ------------------------------------------------------------

    def _check_file(self, file: FileItem) -> FileItem | None:
        path, name = file.path, file.path.rpartition("/")[2]
        occurs = path in self.evidence.paths or is_unique_tail(path, self.evidence.paths)
        if not occurs and "/" in path:
            claim = TextClaim("path", path)
            occurs = (
                self.lookup.has_claim(claim, file.refs)
                if self._has_author
                else self._is_in_thread(path, file.refs)
            )
        if not occurs and self.validate_files:
            reason = DropReason("path", "this path does not occur in the thread")
            self._drop("files", path, reason)
            return None
        why = self._check_note("files", file.reason, file.refs)
        if not occurs:
            return replace(file, verified=False, refs=(), reason=why)
        refs = self._filter_known_refs(file.refs)  # Of those an author chose, what speaks of it.
        refs = tuple(r for r in refs if not self._has_author or name in self.lookup.get_text(r))
        return replace(file, refs=refs, reason=why)

    def _check_command(self, item: CommandItem) -> CommandItem | None:
        if self._was_run(item):
            note = self._check_note("commands", item.note, item.refs)
            return replace(item, refs=self._filter_known_refs(item.refs), note=note)
        reason = DropReason("command", "this command was not run in the thread")
        self._drop("commands", item.command, reason)
        return None

    def _was_run(self, item: CommandItem) -> bool:
        head, known = fold_whitespace(item.command.removesuffix(" …")), self.evidence.commands
        if head in known:
            return True
        if not self._has_author:
            is_run = any(c.startswith(head) for c in known)
            return is_run or self._is_in_thread(head, item.refs)
        cut = item.command.endswith(" …")  # What a text merely mentions was not run.
        return any(
            contains_command(c, head, is_cut=cut) or matches_shortened(head, c) for c in known
        )

    def _check_note(self, section: str, note: str, refs: Sequence[int]) -> str:
        """Why a file or command was chosen, or nothing if the note claims something unseen."""
        if note and self._has_author and (why := self._check_claims(note, refs)):
            self._drop(section, note, why)
            return ""
        return note

    # -- prose -------------------------------------------------------------------------

    def _check_items(
        self, section: str, items: Sequence[Item], find_fault: Callable[[Item], DropReason | None]
    ) -> tuple[Item, ...]:
        def check_item(item: Item) -> Item | None:
            why = find_fault(item)
            if self._has_author and (why is None or _is_kept_with_mark(item, why)):
                return self._check_support(section, item, why)
            if why is None:
                return replace(item, refs=self._filter_known_refs(item.refs))
            self._drop(section, item.text, why, item.refs)
            return None

        return self._select_within_cap(section, items, lambda i: f"{i.label} {i.text}", check_item)

    def _check_support(self, section: str, item: Item, why: DropReason | None) -> Item | None:
        """Return an author's item with the entries that bear it, marked with what is not found in the thread.

        What nothing in the thread speaks of, what has two faults, and more than a few marked ones are dropped.
        """
        from tasuki.draft.claims.support import measure_mentioned  # as above

        known = self._filter_known_refs(item.refs)
        claim = why.claim if why else ""
        rest = item.text.replace(f"`{claim}`", " ").replace(claim, " ") if claim else item.text
        refs, complaint = self._find_support(rest, item.refs)
        if is_next := item.label.startswith(NEXT_STEP):
            complaint = ""
        if complaint and why is None:
            why = DropReason("unsupported" if known else "uncited", complaint)
            is_denial = bool(_DENIALS & {*item.text.lower().split()})
            said = self.lookup.lower.partition("\n")[2]  # Without the goal.
            share = 0.0 if is_denial else measure_mentioned(item.text, said)[0]
            is_kept = is_denial or (item.label != DONE and share >= SPOKEN_SHARE)
            complaint = "" if known and is_kept else complaint
        gap = "" if why or is_next else self._statuses.find_unproven(item.text, {*known, *refs})
        why = DropReason("unsupported", gap) if gap else why
        text, place = item.text, "" if is_next or gap else section
        if why and not text.endswith(_MARK_END):
            text = f"{text} ({why.text}{_MARK_END}"
            is_over = place and sum(where == place for where, _ in self._marked) >= MAX_MARKED
            if (place, text) in self._marked:
                why = DropReason("repeated", "said twice")
            if complaint or is_over or why.kind == "repeated":
                self._drop(section, item.text, why, item.refs)
                return None
        if text.endswith(_MARK_END):
            self._marked.add((place, text))
        return replace(item, refs=refs or known, text=text)

    def _find_support(self, text: str, refs: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """Return the entries that support a text, those that contain a quote, and a complaint if none do."""
        if quoted := _QUOTED.match(text):
            words, answered = fold_quote(quoted[1]), fold_quote(quoted[2] or "")
            if holding := self.lookup.find_quoting_entries(words, refs):
                is_answered = not answered or self.lookup.find_quoting_entries(answered, ())
                return (holding, "") if is_answered else ((), "what it answers was not said")
        return self._support.resolve_refs(text, refs)

    def _check_quote(self, item: Item) -> DropReason | None:
        """Return why a quote must be dropped: only what users typed may be quoted as theirs."""
        if self.lookup.is_user_choice(item.text, item.refs):
            return None
        words = match[1] if (match := _QUOTED.match(item.text)) else item.text
        return None if self.lookup.is_user_quote(words, item.refs) else NOT_BY_USER

    def _check_prose(self, item: Item) -> DropReason | None:
        """Return why a line must be dropped: words not by the user, or code not in the thread."""
        quoted = _QUOTED.match(item.text)
        if quoted and ("user" in item.label.lower()) and not self.lookup.is_user_quote(quoted[1]):
            return NOT_BY_USER
        if why := self._check_claims(item.text, item.refs):
            return why
        if item.label.lower().startswith(_PENDING) and self._is_finished(item):
            return DropReason("finished", "it succeeded later in the thread")
        return None

    def _check_claims(self, text: str, refs: Sequence[int]) -> DropReason | None:
        """Return the first claim of a text that is not in the thread, as a reason to drop it."""
        if not self._has_author:
            codes = (code.removesuffix(" …") for code in _CODE.findall(text))
            missing = (code for code in codes if not self._is_in_thread(code, refs))
            return next((DropReason("value", f"`{code}`{_ABSENT}") for code in missing), None)
        why = self._check_authored_claims(text, refs)
        is_open = why is None or why.kind in _MARKED
        refuted = self._statuses.find_refuted(text, refs) if is_open else ""
        return DropReason("refuted", refuted) if refuted else why

    def _check_authored_claims(self, text: str, refs: Sequence[int]) -> DropReason | None:
        """The same for what an author wrote: every claim is looked up, in code marks or not."""
        from tasuki.draft.claims.literals import (
            extract_claims,
            extract_names,
            is_attributed_to_user,
        )
        from tasuki.draft.prompts import list_examples

        if text.strip().rstrip(".").lower() in list_examples():
            return DropReason("empty", "it is an example of the prompt")
        of_user = is_attributed_to_user(text)
        for claim in extract_claims(text):
            by_user = claim.kind == "quote" and of_user
            before = text[: max(text.find(claim.text), 0)]
            if by_user and (other := _AGENT_SPEAKS.search(before)):  # The nearest speaker.
                by_user = bool(_SPEAKER.search(before, other.start()))
            verdict = self.evidence.judge(
                claim,
                refs,
                by_user=by_user,
                is_plain=f"`{claim.text}`" not in text,  # GitHub, but not `GitHub`
                may_lack_words=True,
            )
            if verdict == "false":
                return NOT_BY_USER
            if verdict == "unknown":
                return DropReason(claim.kind, f"`{claim.text}`{_ABSENT}", claim.text)
        unknown = (name for name in extract_names(text) if not self.lookup.has_name(name))
        return next((DropReason("value", f"`{name}`{_ABSENT}", name) for name in unknown), None)

    def _is_finished(self, item: Item) -> bool:
        """Whether what an item calls open passed or was committed after the entries it cites."""
        last = max(item.refs, default=0)
        for lesson in self.facts.lessons:
            if lesson.failed in item.refs and lesson.passed > last:
                return True
        if not item.label.startswith(NEXT_STEP) or not extract_terms(item.text):
            return False
        return state.is_done_since(item.text, last, self.facts)

    def _is_in_thread(self, text: str, refs: Sequence[int]) -> bool:
        """Return whether a text is in the thread: cited entries first, then all, then the files."""
        wanted = fold_whitespace(text)
        if not wanted:
            return True
        cited = [self.lookup.get_text(r) for r in refs]
        if any(text in t for t in cited) or any(wanted in fold_whitespace(t) for t in cited):
            return True
        return wanted in self.evidence.names or self.lookup.is_anywhere(text)


def _is_kept_with_mark(item: Item, why: DropReason) -> bool:
    """Return whether an item with a fault is kept with a mark: a next step may name what is not there yet."""
    if item.label.startswith(NEXT_STEP) and why.kind in ("path", "command", "value"):
        return True
    return why.kind in _MARKED and "://" not in why.text and item.label != CONSTRAINT


def normalize_path(path: str) -> str:
    """Return a path without a leading `@`, quotes and `./`."""
    return path.strip().strip("`\"'").removeprefix("@").removeprefix("./")
