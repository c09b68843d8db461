"""Checks: nothing in a draft that the thread does not hold. Each drop is reported with its reason.

The same checks run whoever wrote the draft. Cited entries are searched first, then all texts in
memory, and only for what is still missing the bytes of the thread files, since long results are
cut in memory.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from tasuki.draft import state
from tasuki.draft.facts import Derived
from tasuki.draft.text import comparable, one_line, terms
from tasuki.harness.jsonl import occurring
from tasuki.model import CommandItem, Draft, Dropped, Entry, FileItem, Item, Thread

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
_QUOTED = re.compile(r'^"(.*?)"(?: — answering: .*)?$', re.DOTALL)
_PENDING = ("in progress", "pending", "still to do", "next", "failed", "not passed")
_T = TypeVar("_T", Item, FileItem, CommandItem)


class Searchable:
    """The texts of a thread by ref, put together when they are first asked for."""

    def __init__(self, thread: Thread) -> None:
        self.entries = {e.ref: e for e in thread.entries}
        self.sources = thread.sources
        self._texts: dict[int, str] = {}
        self._own: list[str] | None = None

    def text(self, ref: int) -> str:
        """Everything an entry holds; empty for an unknown ref."""
        if ref not in self._texts:
            entry = self.entries.get(ref)
            self._texts[ref] = entry_text(entry) if entry else ""
        return self._texts[ref]

    def anywhere(self, text: str) -> bool:
        """Whether a text stands in some entry, or in the thread's files behind what was cut."""
        if any(text in self.text(ref) for ref in self.entries):
            return True
        return bool(occurring(self.sources, [text]))

    def by_user(self, words: str) -> bool:
        """Whether the user wrote these words, white space and emphasis aside."""
        if self._own is None:
            self._own = [
                comparable(e.text)
                for e in self.entries.values()
                if e.kind == "user" and e.origin in ("typed", "queued", "answer")
            ]
        return any(words in text for text in self._own)


def entry_text(entry: Entry) -> str:
    """Everything an entry holds, as one text: words, command, paths, changes, output."""
    call = entry.tool
    if call is None:
        return entry.text
    changes = [t for c in call.changes for t in (c.path, c.old, c.new)]
    todos = [t.text for t in call.todos or ()]
    if not (changes or todos or call.detail or call.paths):
        return f"{call.command}\n{call.output}"
    return "\n".join(
        (entry.text, call.command, call.detail, *call.paths, *changes, *todos, call.output)
    )


class Checker:
    """One pass over one draft."""

    def __init__(
        self, draft: Draft, thread: Thread, derived: Derived, caps: dict[str, int], validate: bool
    ) -> None:
        self.draft = draft
        self.facts = derived.facts
        self.caps = {**CAPS, **caps}
        self.validate_files = validate
        self.search = Searchable(thread)
        self.dropped: list[Dropped] = []
        self._known_commands = {one_line(r.command) for r in derived.runs}

    def checked(self) -> Draft:
        """The draft without what failed a check, and with the reasons."""
        draft = self.draft
        changed: dict[str, Any] = {
            "files": self._files(draft.files),
            "commands": self._commands(draft.commands),
            "asked": self._items("asked", draft.asked, self._quote_reason),
        }
        for section in ("context", "decisions", "questions", "state"):
            changed[section] = self._items(section, getattr(draft, section), self._prose_reason)
        return msgspec.structs.replace(draft, **changed, dropped=(*draft.dropped, *self.dropped))

    def _drop(self, section: str, text: str, reason: str) -> None:
        self.dropped.append(Dropped(section=section, text=text, reason=reason))

    def _unique(self, section: str, items: Iterable[_T], key: Callable[[_T], str]) -> list[_T]:
        """Without empty ones, placeholders and repetitions, and within the cap."""
        seen: set[str] = set()
        kept: list[_T] = []
        for item in items:
            text = key(item).strip()
            if not text or text.lower().strip(" .<>[]()") in PLACEHOLDERS:
                self._drop(section, text, "empty or a placeholder")
            elif text in seen:
                self._drop(section, text, "said twice")
            elif len(kept) >= self.caps[section]:
                self._drop(section, text, f"over the cap of {self.caps[section]}")
            else:
                seen.add(text)
                kept.append(item)
        return kept

    def _refs(self, refs: Sequence[int]) -> tuple[int, ...]:
        return tuple(r for r in refs if r in self.search.entries)

    # -- files and commands ------------------------------------------------------------

    def _files(self, files: Sequence[FileItem]) -> tuple[FileItem, ...]:
        normal = [msgspec.structs.replace(f, path=normal_path(f.path)) for f in files]
        unique = self._unique("files", normal, lambda f: f.path)
        known = [f.path for f in self.facts.files]
        kept = []
        for file in unique:
            if self._path_occurs(file, known):
                kept.append(msgspec.structs.replace(file, refs=self._refs(file.refs)))
            elif self.validate_files:
                self._drop("files", file.path, "this path does not occur in the thread")
            else:
                kept.append(msgspec.structs.replace(file, verified=False, refs=()))
        return tuple(kept)

    def _path_occurs(self, file: FileItem, known: Sequence[str]) -> bool:
        if file.path in known:
            return True
        if is_tail(file.path, known):
            return True
        return "/" in file.path and self._occurs(file.path, file.refs)

    def _commands(self, commands: Sequence[CommandItem]) -> tuple[CommandItem, ...]:
        kept = []
        for item in self._unique("commands", commands, lambda c: c.command):
            head = one_line(item.command.removesuffix(" …"))
            if head in self._known_commands or self._occurs(head, item.refs):
                kept.append(msgspec.structs.replace(item, refs=self._refs(item.refs)))
            elif any(c.startswith(head) for c in self._known_commands):
                kept.append(item)
            else:
                self._drop("commands", item.command, "this command was not run in the thread")
        return tuple(kept)

    # -- prose -------------------------------------------------------------------------

    def _items(
        self, section: str, items: Sequence[Item], reason: Callable[[Item], str]
    ) -> tuple[Item, ...]:
        kept = []
        for item in self._unique(section, items, lambda i: f"{i.label} {i.text}"):
            if why := reason(item):
                self._drop(section, item.text, why)
            else:
                kept.append(msgspec.structs.replace(item, refs=self._refs(item.refs)))
        return tuple(kept)

    def _quote_reason(self, item: Item) -> str:
        """Why a quote of the user cannot stand: only what they typed may be put in their mouth."""
        words = comparable(match[1] if (match := _QUOTED.match(item.text)) else item.text)
        if not self._said_by_user(words):
            return "the user did not write this"
        return ""

    def _said_by_user(self, words: str) -> bool:
        return self.search.by_user(words.removesuffix(" …"))

    def _prose_reason(self, item: Item) -> str:
        """Why a line cannot stand: words put into the user's mouth, or code nobody saw."""
        quoted = _QUOTED.match(item.text)
        if (
            quoted
            and ("user" in item.label.lower())
            and not self._said_by_user(comparable(quoted[1]))
        ):
            return "the user did not write this"
        for code in _CODE.findall(item.text):
            if not self._occurs(code.removesuffix(" …"), item.refs):
                return f"`{code}` does not occur in the thread"
        if item.label.lower().startswith(_PENDING) and self._finished(item):
            return "it succeeded later in the thread"
        return ""

    def _finished(self, item: Item) -> bool:
        """Whether what an item calls open was passed or committed after the entries it cites."""
        last = max(item.refs, default=0)
        for lesson in self.facts.lessons:
            if lesson.failed in item.refs and lesson.passed > last:
                return True
        if item.label.lower().startswith(("in progress", "failed")) or not terms(item.text):
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
        return wanted in self._paths() or self.search.anywhere(text)

    def _paths(self) -> set[str]:
        return {f.path for f in self.facts.files} | {
            q.text.split()[0] for q in self.facts.revision.commits
        }


def check(
    draft: Draft,
    thread: Thread,
    derived: Derived,
    *,
    caps: dict[str, int] | None = None,
    validate_files: bool = True,
) -> Draft:
    """A draft in which every path, command, quote and code span occurs in the thread.

    `validate_files=False` keeps unknown paths, labelled unverified.
    """
    return Checker(draft, thread, derived, caps or {}, validate_files).checked()


def normal_path(path: str) -> str:
    """A path without a leading `@`, quotes and `./`."""
    return path.strip().strip("`\"'").removeprefix("@").removeprefix("./")


def is_tail(path: str, known: Sequence[str]) -> bool:
    """Whether a path of two parts or more is the end of exactly one known path."""
    if "/" not in path:
        return False
    counts = Counter(k for k in known if k.endswith("/" + path))
    return len(counts) == 1
