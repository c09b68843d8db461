"""Prompts that tasuki itself types into sessions and panes, recognised in the threads that record them.

Each is recognised by the fixed words that its template begins with. White space is not compared, so
line wraps do not matter. The templates are in `draft/prompts` and `fleet/prompts`; a test renders
each of them and compares.
"""

import re

from msgspec import Struct

GOAL_LABEL = "What it was asked to do:"
NEXT_LABEL = "What the user wants next:"
OPERATOR_LABEL = "From the operator:"
TASK_LABEL = "Your task:"
"""Labels of what people wrote inside such a prompt: the predecessor's goal, the next one, a note, the agent's goal."""

CLOSING = "(tasuki handoff {{reference}})"
"""The last line of the prompts of a fleet handoff."""
INSTRUCTION = (
    "Your work is about to be handed to a successor who knows nothing of this conversation."
)
INJECTION = (
    "You take over from agent {{predecessor}} ({{persona}}, session {{session}}), which has ended:"
)
SKILL = "You are {{persona}}. This is your skill: who you are and how you work."
OPENINGS = (
    INSTRUCTION,
    INJECTION,
    SKILL,
    'Nothing is to be done yet: answer with the one word "ready" and end your turn.',
    "This conversation is about to be handed to a fresh session, which knows nothing of it.",
    "Your last answer held no text. Answer now with the handoff document itself",
    "Your handoff document was checked against the record of this conversation.",
    "This conversation is about to be handed to a fresh thread. Do not go on with the work, and use no tools:",
    "Your answer was checked against the thread. What was dropped, and why:",
    "Your document was checked against the thread. What was dropped, and why:",
    "Your answer could not be used: {{problem}} Answer again with valid JSON only:",
    "Your answer could not be used: {{problem}} Write the document again as Markdown with exactly these headings",
)
"""Words that these prompts begin with; `{{name}}` stands for any text."""
_LONGEST_VALUE = 1_000
"""Characters of what is put into an opening, at most."""
_PARTS = re.compile(r"(\s+|\{\{\w+\}\})")


def _pattern(template: str, value: str = rf".{{1,{_LONGEST_VALUE}}}?") -> str:
    """A regular expression for fixed words and variables, in which all white space is the same."""
    return "".join(
        r"\s+" if part.isspace() else value if part.startswith("{{") else re.escape(part)
        for part in _PARTS.split(template)
        if part
    )


_BEFORE = re.compile(
    r"[\s\ufeff\u200b]*(?:<([a-zA-Z][\w-]*)(?:\s[^<>]*)?>.*?</\1>\s*)*"
    r"(?:# Context from my IDE setup:.*?\n## My request for Codex:\s*)?",
    re.DOTALL,
)
"""What a harness may put before a prompt: blank lines, tagged blocks, the state of an editor."""
_AT_START = re.compile("|".join(map(_pattern, OPENINGS)), re.DOTALL)
_OF_FLEET = re.compile(f"{_pattern(INSTRUCTION)}|{_pattern(INJECTION)}", re.DOTALL)
_LINE = re.compile(rf"(?m)^[^\S\n]*(?=(?s:{_OF_FLEET.pattern}))")
_INSIDE_LINE = re.compile(
    rf"{_pattern(f'{INSTRUCTION} Write a handoff document for it now.')}"
    rf"|{_pattern(f'{INJECTION} you continue its work. Handoff document:')}",
    re.DOTALL,
)
"""More of their first words, for behind words on the same line: a paste is where the cursor was."""
_LAST_LINE = re.compile(_pattern(CLOSING, r"[\w/-]{4,80}"))
_INSTRUCTION = re.compile(_pattern(INSTRUCTION), re.DOTALL)
_INJECTION = re.compile(_pattern(INJECTION), re.DOTALL)
_SKILL = re.compile(_pattern(SKILL), re.DOTALL)
_ABOUT = re.compile(
    rf"(?:\A|\s)(?:{'|'.join(map(_pattern, (GOAL_LABEL, NEXT_LABEL, OPERATOR_LABEL)))})\s+(?=\S)"
)
_STEPS = re.compile(rf"\s{_pattern('1. Begin your answer with this line, by itself:')}")
_LAST_STEP = re.compile(
    rf"{_pattern('3. Continue the work from where it stopped.')}\s+{_LAST_LINE.pattern}"
)
"""The end of an injection: a goal inside it may have a line like its last one."""
_TASK = re.compile(rf"(?m)^[^\S\n]*{_pattern(TASK_LABEL)}[^\S\n]*$")
_DOCUMENT = re.compile(
    rf"{_pattern('Handoff document:')}\s+(?P<path>\S.{{0,4000}}?)\s+{_pattern('Reason for the handoff:')}",
    re.DOTALL,
)


class TypedPrompt(Struct, frozen=True):
    """One such prompt in a text: where it begins and ends."""

    text: str
    start: int
    end: int

    @property
    def peoples_words(self) -> str:
        """What a person wrote of it: the goal and the operator's note that it passes on."""
        own = self.text[self.start : self.end]
        if _INJECTION.match(own):
            steps = list(_STEPS.finditer(own))  # the goal may have a line like these
            about = _ABOUT.split(own[: steps[-1].start()] if steps else "")
            return "\n".join(part.strip() for part in about[1:])
        if _SKILL.match(own) and (labels := list(_TASK.finditer(own))):
            return own[labels[-1].end() :].strip()
        return ""

    @property
    def document(self) -> str:
        """The path of the handoff document that it tells a successor to read; else empty."""
        own = self.text[self.start : self.end]
        named = _DOCUMENT.search(own) if _INJECTION.match(own) else None
        return " ".join(named["path"].split()) if named else ""


def find_typed_prompt(text: str, at: int = 0) -> TypedPrompt | None:
    """The first prompt of tasuki's own in a text from `at` on, None if there is none.

    At the beginning, after what a harness puts there, its first words are enough. Further on, after
    words of the user, the prompts of a fleet are recognised if their last line is there too; behind
    words on the same line if no other one begins before that.
    """
    start = 0 if at else _begin(text)
    if not at and _AT_START.match(text, start):
        end = _find_end(text, start) if _OF_FLEET.match(text, start) else 0
        return TypedPrompt(text, start, end or len(text))
    return _find_behind_words(text, at) if _LAST_LINE.search(text, at) else None


def _find_behind_words(text: str, at: int) -> TypedPrompt | None:
    line = _LINE.search(text, at)
    start = line.end() if line else len(text)
    for inside in _INSIDE_LINE.finditer(text, at, start):
        end = _find_end(text, inside.start())
        if end and not _OF_FLEET.search(text, inside.end(), end):
            return TypedPrompt(text, inside.start(), end)
    end = _find_end(text, start)
    return TypedPrompt(text, start, end) if end else None


def _find_end(text: str, start: int) -> int:
    """Where a prompt of the fleet ends that begins at `start`: behind its last line; 0 without one."""
    own = _INJECTION.match(text, start)
    last = _LAST_STEP.search(text, own.end()) if own else None
    if own and last and not _OF_FLEET.search(text, own.end(), last.start()):
        return last.end()
    end = _LAST_LINE.search(text, start)
    return end.end() if end else 0


def _begin(text: str) -> int:
    """Where a prompt begins after what a harness may put before it."""
    before = _BEFORE.match(text)
    return before.end() if before else 0


def asks_for_handoff_document(text: str) -> bool:
    """Whether a prompt is, or holds, the one that asks an agent of a fleet for its handoff document."""
    found = find_typed_prompt(text)
    while found and not _INSTRUCTION.match(text, found.start):
        found = find_typed_prompt(text, found.end)
    return found is not None


def is_typed_by_tasuki(text: str) -> bool:
    """Whether a prompt is one of tasuki's own, or begins with one."""
    return bool(_AT_START.match(text, _begin(text)))


def peoples_words(text: str) -> str:
    """A prompt without what tasuki itself typed: empty if that is all of it.

    What a person wrote stays: before and after it, and a goal or note that it passes on.
    """
    found = find_typed_prompt(text)
    if found is None:
        return text
    end = found.start if _BEFORE.fullmatch(text, 0, found.start) else 0
    parts = []
    while found:
        parts += [text[end : found.start], found.peoples_words]
        end = found.end
        found = find_typed_prompt(text, end)
    return "\n\n".join(part.strip() for part in (*parts, text[end:]) if part.strip())


def named_document(text: str) -> str:
    """The path of the handoff document that a prompt tells a successor to read; else empty."""
    found, path = find_typed_prompt(text), ""
    while found and not path:
        path, found = found.document, find_typed_prompt(text, found.end)
    return path
