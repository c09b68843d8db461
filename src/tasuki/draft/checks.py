"""Checks: nothing in a draft that the thread does not hold. Each drop is reported with its reason.

The same checks run whoever wrote the draft. In what somebody wrote, every claim of every sentence is
looked up, and whether the entries it cites speak of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from tasuki.draft import state
from tasuki.draft.facts import Derived
from tasuki.draft.occurrence import Claim, stands
from tasuki.draft.standing import Standing, spoken
from tasuki.draft.text import one_line, shorten, terms
from tasuki.model import CommandItem, Draft, Dropped, FileItem, Goal, Item, Thread

if TYPE_CHECKING:
    from tasuki.draft.support import Support

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
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_QUOTED = re.compile(r'^"(.*?)"(?: — (?:answering: (.*)|refusing: .*))?$', re.DOTALL)
LOOKED_AT = 3
"""Times the cap of a section: how many of its items are looked at."""
KEPT = 1_000
"""Characters of a dropped text that are kept."""
_UNDER_WAY, _NEXT_STEP, _STILL_FAILING = "under way", "next step", "failed, and did not pass"
_PENDING = (_UNDER_WAY, _NEXT_STEP, _STILL_FAILING)
"""How labels begin that call something open."""
_ALL_PASS = re.compile(
    r"\b(?:all|the|every)\b[^.;:]{0,40}\btests?\b[^.;:]{0,30}\b(?:pass|passes|passing|green|succeeds?)\b",
    re.IGNORECASE,
)
_QUALIFIED = re.compile(
    r"\b(?:not|never|no longer|except|but|until|once|if|should|must|fail\w*|when|before|after)\b|n't",
    re.IGNORECASE,
)
_PROSE = ("context", "decisions", "questions", "state")
_QUOTED_PROSE = ("context", "decisions", "questions")
"""Of a draft that nobody wrote: its state is derived from what programs printed, in words of ours."""
_T = TypeVar("_T", Item, FileItem, CommandItem)


Check = Callable[[Draft], Draft]
"""Gives a draft without what does not stand up, and with the reasons."""


class Reason(Struct, frozen=True):
    """Why something cannot stand: the kind, to count by, and a sentence."""

    kind: str
    text: str


NOT_THE_USERS = Reason("user", "the user did not write this")
_ABSENT = " does not occur in the thread"


class Checker:
    """Checks drafts for one goal against one thread, whose texts are put together once.

    `caps` are limits of sections that differ from `CAPS`. `validate_files=False` keeps unknown paths,
    labelled unverified.
    """

    def __init__(
        self,
        thread: Thread,
        derived: Derived,
        goal: Goal,
        caps: dict[str, int],
        validate_files: bool = True,
    ) -> None:
        self.facts = derived.facts
        self.caps = {**CAPS, **caps}
        self.validate_files = validate_files
        self.search = Standing(thread, goal)
        self.dropped: list[Dropped] = []
        self._known_commands = {one_line(r.command) for r in derived.runs}
        self._written = False
        """Whether somebody wrote it: then every claim in its prose is looked up, and its refs too."""
        self._thread = thread
        self._known_paths = [f.path for f in self.facts.files]

    @cached_property
    def _support(self) -> "Support":
        from tasuki.draft.support import Support  # not needed where nobody wrote anything

        return Support(self._thread.entries)

    def checked(self, draft: Draft) -> Draft:
        """The draft without what failed a check, and with the reasons.

        In what is left every path, command, quote and code span occurs in the thread.
        """
        self.dropped = []
        self._written = draft.authorship.author != "offline"
        if self._written:
            self._look_up_claims(draft)
        changed: dict[str, Any] = {
            "files": self._files(draft.files),
            "commands": self._commands(draft.commands),
            "asked": self._items("asked", draft.asked, self._quote_reason),
        }
        if not self._written:
            refs = (msgspec.structs.replace(i, refs=self._refs(i.refs)) for i in draft.state)
            changed["state"] = tuple(refs)
        for section in _PROSE if self._written else _QUOTED_PROSE:
            changed[section] = self._items(section, getattr(draft, section), self._prose_reason)
        return msgspec.structs.replace(draft, **changed, dropped=(*draft.dropped, *self.dropped))

    def _look_up_claims(self, draft: Draft) -> None:
        """Look for the claims of all sentences together."""
        from tasuki.draft.claims import claims

        caps = self.caps
        most = {**caps, "context": caps["context"] + caps["state"]}
        texts = [i.text for s in _PROSE for i in getattr(draft, s)[: most[s] * LOOKED_AT]]
        texts += [f.reason for f in draft.files[: caps["files"] * LOOKED_AT]]
        texts += [c.note for c in draft.commands[: caps["commands"] * LOOKED_AT]]
        self.search.look_up(map(claims, texts))

    def _drop(self, section: str, text: str, why: Reason) -> None:
        dropped = Dropped(section, shorten(text, KEPT), shorten(why.text, KEPT), kind=why.kind)
        self.dropped.append(dropped)

    def _within(
        self,
        section: str,
        items: Iterable[_T],
        key: Callable[[_T], str],
        taken: Callable[[_T], _T | None],
    ) -> tuple[_T, ...]:
        """What stands of some items, within the cap: what falls through a check takes no place."""
        kept: list[_T] = []
        looked_at, places = Counter[str](), Counter[str]()
        for item in self._unique(section, items, key):
            capped = _cap_name(section, item)
            cap = self.caps[capped]
            looked_at[capped] += 1
            is_over = places[capped] >= cap or looked_at[capped] > cap * LOOKED_AT
            if self._written and is_over:
                self._drop(section, key(item), Reason("cap", f"over the cap of {cap}"))
            elif (standing := taken(item)) is not None:
                places[capped] += 1
                kept.append(standing)
        return tuple(kept)

    def _unique(self, section: str, items: Iterable[_T], key: Callable[[_T], str]) -> Iterator[_T]:
        """Without empty ones, placeholders and repetitions."""
        seen: set[str] = set()
        for item in items:
            text = key(item).strip()
            if not text or text.lower().strip(" .<>[]()") in PLACEHOLDERS:
                self._drop(section, text, Reason("empty", "empty or a placeholder"))
            elif text in seen:
                self._drop(section, text, Reason("repeated", "said twice"))
            else:
                seen.add(text)
                yield item

    def _refs(self, refs: Sequence[int]) -> tuple[int, ...]:
        return tuple(r for r in refs if r in self.search.entries)

    # -- files and commands ------------------------------------------------------------

    def _files(self, files: Sequence[FileItem]) -> tuple[FileItem, ...]:
        normal = (
            f
            if f.path in self._known_paths
            else msgspec.structs.replace(f, path=normal_path(f.path))
            for f in files
        )
        return self._within("files", normal, lambda f: f.path, self._file)

    def _file(self, file: FileItem) -> FileItem | None:
        occurs = self._path_occurs(file)
        if not occurs and self.validate_files:
            self._drop("files", file.path, Reason("path", "this path does not occur in the thread"))
            return None
        why = self._note("files", file.reason, file.refs)
        if occurs:
            return msgspec.structs.replace(file, refs=self._refs_to(file), reason=why)
        return msgspec.structs.replace(file, verified=False, refs=(), reason=why)

    def _refs_to(self, file: FileItem) -> tuple[int, ...]:
        """The refs of a file; of those that an author chose, the ones that speak of it."""
        refs, name = self._refs(file.refs), file.path.rpartition("/")[2]
        return tuple(r for r in refs if not self._written or name in self.search.text(r))

    def _path_occurs(self, file: FileItem) -> bool:
        path = file.path
        if path in self._known_paths or is_tail(path, self._known_paths):
            return True
        if self._written:
            return "/" in path and self.search.holds(Claim("path", path), file.refs)
        return "/" in path and self._occurs(path, file.refs)

    def _commands(self, commands: Sequence[CommandItem]) -> tuple[CommandItem, ...]:
        return self._within("commands", commands, lambda c: c.command, self._command)

    def _command(self, item: CommandItem) -> CommandItem | None:
        if self._was_run(item):
            note = self._note("commands", item.note, item.refs)
            return msgspec.structs.replace(item, refs=self._refs(item.refs), note=note)
        reason = Reason("command", "this command was not run in the thread")
        self._drop("commands", item.command, reason)
        return None

    def _was_run(self, item: CommandItem) -> bool:
        head = one_line(item.command.removesuffix(" …"))
        if head in self._known_commands:
            return True
        if self._written:  # What a text merely mentions was not run.
            cut = item.command.endswith(" …")
            return any(runs(c, head, cut=cut) or shows(head, c) for c in self._known_commands)
        return self._occurs(head, item.refs) or self._begins_known(head)

    def _begins_known(self, head: str) -> bool:
        return any(c.startswith(head) for c in self._known_commands)

    def _note(self, section: str, note: str, refs: Sequence[int]) -> str:
        """Why a file or command was chosen, empty where that claims what nobody saw."""
        if note and self._written and (why := self._claim_reason(note, refs)):
            self._drop(section, note, why)
            return ""
        return note

    # -- prose -------------------------------------------------------------------------

    def _items(
        self, section: str, items: Sequence[Item], reason: Callable[[Item], Reason | None]
    ) -> tuple[Item, ...]:
        def taken(item: Item) -> Item | None:
            refs, why = self._refs(item.refs), reason(item)
            if why is None and self._written:
                refs, unborne = self._borne(item)
                kind = "unsupported" if self._refs(item.refs) else "uncited"
                why = Reason(kind, unborne) if unborne else None
            if why is None:
                return msgspec.structs.replace(item, refs=refs)
            self._drop(section, item.text, why)
            return None

        return self._within(section, items, lambda i: f"{i.label} {i.text}", taken)

    def _borne(self, item: Item) -> tuple[tuple[int, ...], str]:
        """The entries an item rests on, a quote on those that hold it; none, and why."""
        if quoted := _QUOTED.match(item.text):
            words, answered = spoken(quoted[1]), spoken(quoted[2] or "")
            if holding := self.search.holding(words, item.refs):
                told = not answered or self.search.holding(answered, ())
                return (holding, "") if told else ((), "what it answers was not said")
        return self._support.resolve(item.text, item.refs)

    def _quote_reason(self, item: Item) -> Reason | None:
        """Why a quote of the user cannot stand: only what they typed may be put in their mouth."""
        words = match[1] if (match := _QUOTED.match(item.text)) else item.text
        return None if self.search.by_user(words) else NOT_THE_USERS

    def _prose_reason(self, item: Item) -> Reason | None:
        """Why a line cannot stand: words put into the user's mouth, or code nobody saw."""
        quoted = _QUOTED.match(item.text)
        if quoted and ("user" in item.label.lower()) and not self.search.by_user(quoted[1]):
            return NOT_THE_USERS
        if why := self._claim_reason(item.text, item.refs):
            return why
        if item.label.lower().startswith(_PENDING) and self._finished(item):
            return Reason("finished", "it succeeded later in the thread")
        if self._written and self._failing(item):
            return Reason("unsupported", "the last test run of the thread failed")
        return None

    def _failing(self, item: Item) -> bool:
        """Whether an item says that tests pass where the last run failed, and cites none that passed."""
        tests = [c for c in self.facts.last_check if c.check == "test"]
        if not any(c.known and not c.ok for c in tests):
            return False
        if not _ALL_PASS.search(item.text) or _QUALIFIED.search(item.text):
            return False
        passed = (c for c in self.facts.commands if c.check == "test" and c.ok)
        return not any(set(c.refs) & set(item.refs) for c in passed)

    def _claim_reason(self, text: str, refs: Sequence[int]) -> Reason | None:
        """The first claim of a text that does not stand in the thread, as a reason to drop it."""
        if not self._written:
            codes = (code.removesuffix(" …") for code in _CODE.findall(text))
            missing = (code for code in codes if not self._occurs(code, refs))
            return next((Reason("value", f"`{code}`{_ABSENT}") for code in missing), None)
        return self._written_reason(text, refs)

    def _written_reason(self, text: str, refs: Sequence[int]) -> Reason | None:
        """The same for what somebody wrote: every claim is looked up, in code marks or not."""
        from tasuki.draft.claims import attributes_to_user, claims, names
        from tasuki.draft.prompts import examples

        if text.strip().rstrip(".").lower() in examples():
            return Reason("empty", "it is an example of the prompt")
        of_user = attributes_to_user(text)
        for claim in claims(text):
            if claim.kind == "quote" and of_user:
                if not self.search.by_user(claim.text):
                    return NOT_THE_USERS
            elif not self._stands(claim, refs) and not self._only_in_case(claim, text):
                return Reason(claim.kind, f"`{claim.text}`{_ABSENT}")
        unknown = (name for name in names(text) if not self.search.names(name))
        return next((Reason("value", f"`{name}`{_ABSENT}") for name in unknown), None)

    def _stands(self, claim: Claim, refs: Sequence[int]) -> bool:
        """Whether a claim stands among the facts, or in the thread."""
        text = claim.text
        if text in self._paths or is_tail(text, self._known_paths):
            return True
        if claim.kind == "command":
            head = one_line(text)
            if any(runs(c, head, cut=True) for c in self._known_commands):
                return True
        return self.search.holds(claim, refs)

    def _only_in_case(self, claim: Claim, text: str) -> bool:
        """Whether a claim is a word that stands in the thread in another case: GitHub, not `GitHub`."""
        return (
            claim.text.isalpha() and f"`{claim.text}`" not in text and self.search.names(claim.text)
        )

    def _finished(self, item: Item) -> bool:
        """Whether what an item calls open was passed or committed after the entries it cites."""
        last = max(item.refs, default=0)
        for lesson in self.facts.lessons:
            if lesson.failed in item.refs and lesson.passed > last:
                return True
        if not item.label.lower().startswith(_NEXT_STEP) or not terms(item.text):
            return False
        return state.done_since(item.text, last, self.facts)

    def _occurs(self, text: str, refs: Sequence[int]) -> bool:
        """Whether a text stands in the thread: cited entries first, then all, then the files."""
        wanted = one_line(text)
        if not wanted:
            return True
        cited = [self.search.text(r) for r in refs]
        if any(text in t for t in cited) or any(wanted in one_line(t) for t in cited):
            return True
        return wanted in self._paths or self.search.anywhere(text)

    @cached_property
    def _paths(self) -> set[str]:
        return {*self._known_paths, *(q.text.split()[0] for q in self.facts.revision.commits)}


def _cap_name(section: str, item: Item | FileItem | CommandItem) -> str:
    """The cap that counts an item: what an author says of the state stands in the context, labelled."""
    is_labelled = section == "context" and isinstance(item, Item) and bool(item.label)
    return "state" if is_labelled else section


def normal_path(path: str) -> str:
    """A path without a leading `@`, quotes and `./`."""
    return path.strip().strip("`\"'").removeprefix("@").removeprefix("./")


_BEFORE = re.compile(
    r"(?:^|[;&|(]|\s--|['\"]|\bsudo|\btime|\btimeout \S+|\bexec|(?<!\S)\w+=\S*) $|^$|['\"(]$"
)
_BEHIND = re.compile(r"\s*(?:$|[;&|)'\"<>]|\d?>)")


def runs(command: str, part: str, *, cut: bool) -> bool:
    """Whether a command line runs a command, perhaps beside others; `cut` ones may go on behind it."""
    at = command.find(part) if part else -1
    while at >= 0:
        behind = command[at + len(part) :]
        whole = not (cut and behind[:1] in ("", " ")) and not _BEHIND.match(behind)
        if not whole and _BEFORE.search(command[:at]):
            return True
        at = command.find(part, at + 1)
    return False


def shows(shown: str, command: str) -> bool:
    """Whether a command is shown with parts left out, from its beginning: `git commit -m "…"`."""
    head, left_out, _ = shown.partition("…")
    return bool(left_out and head.strip()) and command.startswith(head) and stands(shown, command)


def is_tail(path: str, known: Sequence[str]) -> bool:
    """Whether a path of two parts or more is the end of exactly one known path."""
    if "/" not in path:
        return False
    counts = Counter(k for k in known if k.endswith("/" + path))
    return len(counts) == 1
