"""Texts of an entry, the turns of a thread, and whether a text contains a claim verbatim."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import Literal

from msgspec import Struct

from tasuki.draft.redact.redactor import MARK
from tasuki.draft.text.split import fold_whitespace
from tasuki.harness.reading.answers import extract_own_answers
from tasuki.model import Entry
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display
from tasuki.typed_prompts import extract_human_words, extract_words_after_handoff


def extract_user_words(entry: Entry) -> str:
    """Return what the user wrote in an entry, also after a handoff in the same prompt, or ''.

    Prompts that tasuki typed are not the user's words. A goal or an operator's note that one of
    them passes on is, without its label.
    """
    if entry.is_by_hand:
        words = extract_own_answers(entry.text) if entry.origin == "answer" else entry.text
        return extract_human_words(words)
    is_handoff = entry.kind == "user" and entry.origin == "handoff"
    return extract_human_words(extract_words_after_handoff(entry.text)) if is_handoff else ""


def strip_handoff(entry: Entry) -> str:
    """Return a prompt without the handoff at its start and without what tasuki typed."""
    return extract_human_words(
        extract_words_after_handoff(entry.text) if entry.origin == "handoff" else entry.text
    )


def join_entry_text(entry: Entry) -> str:
    """Return everything in an entry as one text: words, command, paths, changes, output."""
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


_COLOUR = compile_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")


def strip_colours(text: str) -> str:
    """Return what a program printed without what sets colours and moves the cursor."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


_FRAME = compile_pattern(
    r"(?m)^(?:This session is being continued from a previous conversation|(?:Please )?[Cc]ontinue the conversation from where|If you need specific details from before|"
    r"The messages after this summary are the most recent|Recent messages are preserved verbatim|Analysis:$|Summary:$"
    r"|::[a-z][\w-]*\{)[^\n]*\n?"
)
"""What harnesses put around a summary, and the orders to the harness's window in a message."""


def strip_frame(text: str) -> str:
    """Return a message or a summary without the lines that are meant for the harness."""
    return _FRAME.sub("", text).strip()


def format_entry(entry: Entry) -> str:
    """Return an entry in readable form: words, or the call with its changes and result."""
    call = entry.tool
    if call is None:
        return entry.text
    head = f"{call.name} {call.command or call.detail or ' '.join(call.paths)}".strip()
    changes = ""
    for change in call.changes:
        minus = "".join(f"\n-{line}" for line in change.old.split("\n")) if change.old else ""
        plus = "".join(f"\n+{line}" for line in change.new.split("\n")) if change.new else ""
        changes += f"\n{change.path}{minus}{plus}"
    todos = "".join(f"\n[{t.status}] {t.text}" for t in call.todos or ())
    code = f" (exit {call.exit_code})" if call.exit_code else ""
    return f"{head}{changes}{todos}\n→ {call.status}{code}\n{call.output}".rstrip()


class ThreadTurn(Struct, frozen=True, dict=True):
    """One message of the user with all that followed. `prompt` is None before the first message."""

    prompt: Entry | None
    entries: tuple[Entry, ...]

    @cached_property
    def messages(self) -> tuple[Entry, ...]:
        """The agent's messages, in order."""
        return tuple(e for e in self.entries if e.kind == "assistant" and e.text.strip())

    @property
    def conclusion(self) -> Entry | None:
        """The agent's last message of the turn, None if it said nothing."""
        said = self.messages
        return said[-1] if said else None

    @property
    def is_ended(self) -> bool:
        """Whether the agent's last message came after its last tool call."""
        return bool(self.entries) and self.entries[-1].kind == "assistant"


def split_turns(entries: Sequence[Entry]) -> list[ThreadTurn]:
    """The turns of a thread in order; what comes before the first message is a separate turn."""
    turns: list[ThreadTurn] = []
    prompt: Entry | None = None
    rest: list[Entry] = []
    for entry in entries:
        if entry.kind == "user" and (entry.origin == "answer" or extract_user_words(entry)):
            if prompt or rest:
                turns.append(ThreadTurn(prompt, tuple(rest)))
            prompt, rest = entry, []
        else:
            rest.append(entry)
    if prompt or rest:
        turns.append(ThreadTurn(prompt, tuple(rest)))
    return turns


def find_concluding_refs(turns: Iterable[ThreadTurn]) -> set[int]:
    """Return the messages in which the agent came to an end of a turn."""
    return {t.conclusion.ref for t in turns if t.conclusion and t.is_ended}


_COMPLETES = compile_pattern(
    r"\b(?:git\b.*\b(?:commit|push|merge|rebase|tag)|publish|deploy|release)\b"
)
"""Commands whose end is reported as something done."""


def find_said_after_abort(entries: Sequence[Entry], concluding: Set[int]) -> dict[int, int]:
    """Return messages within a turn before which a commit or the like was aborted, each with that call."""
    found: dict[int, int] = {}
    aborted = 0
    for entry in entries:
        if call := entry.tool:
            if call.status == "aborted" and _COMPLETES.search(call.command):
                aborted = entry.ref
            continue
        if aborted and entry.kind == "assistant" and entry.ref not in concluding:
            found[entry.ref] = aborted
        aborted = 0
    return found


ClaimKind = Literal["path", "command", "quote", "value"]
WINDOW = 400
"""Characters between two parts of a claim with a part left out."""
QUOTE_WINDOW = 4_000
"""The same in a person's words."""
MAX_ATTEMPTS = 500
"""Places at which the first part of a claim is tried."""
_NUMBER = compile_pattern(r"\d[\d.,]*")
_HASH = compile_pattern(r"(?=[a-f]*\d)[0-9a-f]{7,40}")
_LEFT_OUT = compile_pattern(
    rf"{MARK.pattern}|…|\[\.\.\.\]|(?<![\w./])\.\.\.(?![\w./])|(?<=\w/)\.\.\.$"
)
_MIN_LETTERS = 5
"""Letters and digits that must be left of a claim with a part left out."""

_HIDDEN = compile_pattern("[\u00ad\u200b-\u200f\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff]")


class TextClaim(Struct, frozen=True):
    """Characters that, according to a sentence, are in the thread."""

    kind: ClaimKind
    text: str


def strip_hidden(text: str) -> str:
    """Return a text on one line without escape sequences, zero-width and direction marks."""
    return fold_whitespace(_HIDDEN.sub("", clean_for_display(text)))


def contains_claim(claim: str, text: str) -> bool:
    """Whether a text contains a claim, apart from white space, and not as part of a longer name."""
    return contains_verbatim(claim, fold_whitespace(text))


def contains_verbatim(claim: str, folded: str, window: int = WINDOW) -> bool:
    """The same for a text whose lines are folded; several entries are separated by newlines.

    `window` is the number of characters that may be left out where a claim marks an omission.
    """
    wanted = fold_whitespace(claim)
    if _NUMBER.fullmatch(wanted):
        return any(_has_number(form, folded) for form in {wanted, wanted.replace(",", "")})
    if any(True for _ in _find_whole(wanted, folded)):
        return True
    if wanted.endswith("()"):
        return any(True for _ in _find_whole(wanted[:-2], folded))
    if _LEFT_OUT.search(wanted):
        return _has_parts_in_order(wanted, folded, window)
    # A name in which `*` means anything: `tests/test_*.py`.
    if "*" not in wanted or " " in wanted or sum(map(str.isalnum, wanted)) < _MIN_LETTERS:
        return False
    shape = r"[^\s/]{0,80}".join(re.escape(part) for part in re.split(r"\*+", wanted))
    return bool(re.search(rf"(?<!\w){shape}(?!\w)", folded))


def _find_whole(wanted: str, text: str, *, open_end: bool = False) -> Iterator[int]:
    """Yield where a text occurs and is not part of a longer name; a hash may be the start of one."""
    open_end = open_end or bool(_HASH.fullmatch(wanted))
    index = text.find(wanted) if wanted else -1
    while index >= 0:
        end = index + len(wanted)
        inside_left = index > 0 and _is_word(wanted[0]) and _is_word(text[index - 1])
        inside_right = _is_word(wanted[-1]) and _is_word(text[end : end + 1])
        if not inside_left and (open_end or not inside_right):
            yield index
        index = text.find(wanted, index + 1)


def _has_number(wanted: str, text: str) -> bool:
    """Return whether a number occurs in a text, perhaps after a `v` or before a unit."""

    def goes_on(neighbours: str) -> bool:
        """Return whether it continues in the two characters next to it, the nearer one first."""
        first, second = neighbours[:1], neighbours[1:]
        return first.isdigit() or (first in (".", ",") and second.isdigit())

    index = text.find(wanted)
    while index >= 0:
        end = index + len(wanted)
        left, right = text[max(0, index - 2) : index], text[end : end + 2]
        inside = left[-1:].isalpha() and right[:1].isalpha()
        is_longer = goes_on(right) if wanted.isdigit() else right[:1].isdigit()
        if not (inside or is_longer or goes_on(left[::-1])):
            return True
        index = text.find(wanted, index + 1)
    return False


def _has_parts_in_order(wanted: str, text: str, window: int) -> bool:
    """Return whether the parts of a text with marked omissions occur one after the other."""
    parts = [part.strip() for part in _LEFT_OUT.split(wanted)]
    open_end = not parts[-1]
    first, *others = [part for part in parts if part] or [""]
    if sum(map(str.isalnum, "".join((first, *others)))) < _MIN_LETTERS:
        return False
    starts = _find_whole(first, text, open_end=not others and open_end)
    for index in islice(starts, MAX_ATTEMPTS):
        end = index + len(first)
        for part in others:
            found = text.find(part, end, end + window + len(part))
            if found < 0 or "\n" in text[end:found]:
                break
            end = found + len(part)
        else:
            return True
    return False


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
