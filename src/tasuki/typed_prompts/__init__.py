"""Prompts that tasuki itself types into sessions and panes, recognized in recorded threads.

Each is recognized by the fixed words that its template begins with. White space is not
compared, so line wraps do not matter. The templates are in `draft/prompts` and
`fleet/prompts`; a test renders each of them and compares.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tasuki.patterns import compile_pattern

HANDOFF_TITLE = "# Handoff Context"
_HANDOFF = compile_pattern(
    rf"\A(?:[/$][\w:.-]+\s+)?(?:{HANDOFF_TITLE}\s*(?:[#>]|\n|\Z)|<handoff-context>)"
)
HANDOFF_CLOSING = (
    "The above is a handoff document from a previous session. "
    "Use this context to continue the work seamlessly."
)
"""Exactly the seed's sentence after a handoff that is in a session's context."""
_CLOSED = compile_pattern(rf"</handoff-context>\s*{re.escape(HANDOFF_CLOSING)}")

_GOAL = compile_pattern(r"(?m)^## Next Goal \(verbatim[^)\n]*\)[^\S\n]*$")
_RECORD_END = "</record-of-the-past>"

GOAL_LABEL = "What it was asked to do:"
NEXT_LABEL = "What the user wants next:"
OPERATOR_LABEL = "From the operator:"
TASK_LABEL = "Your task:"
"""Labels of what people wrote inside such a prompt.

These are the predecessor's goal, the next one, a note, and the agent's goal.
"""

CLOSING = "(tasuki handoff {{reference}})"
"""The last line of the prompts of a fleet handoff."""
INSTRUCTION = (
    "Your work is about to be handed to a successor who knows nothing of this conversation."
)
INJECTION = (
    "You take over from agent {{predecessor}} ({{persona}}, session {{session}}), which has ended:"
)
FORK = (
    "You are a fork of agent {{predecessor}} ({{persona}}, session {{session}}), which goes on with"
    " its own work:"
)
SKILL = "You are {{persona}}. This is your skill: who you are and how you work."
LAST_STEP_OF_FORK = (
    "3. Do what the user wants next, and nothing else: the rest is that agent's work."
)
OPENINGS = (
    INSTRUCTION,
    INJECTION,
    FORK,
    SKILL,
    'Nothing is to be done yet: answer with the one word "ready" and end your turn.',
    "This conversation is about to be handed to a fresh session, which knows nothing of it.",
    "Your last answer held no text. Answer now with the handoff document itself",
    "Your handoff document was checked against the record of this conversation.",
    "This conversation is about to be handed to a fresh thread. Do not go on with the work, and use no tools:",
    "Your answer was checked against the record of the thread.",
    "Your document was checked against the record of the thread.",
    "Your answer could not be used: {{problem}} Answer again with valid JSON only:",
    "Your answer could not be used: {{problem}} Write the document again as Markdown with exactly these headings",
)
"""Words that these prompts begin with; `{{name}}` matches any text."""
_LONGEST_VALUE = 1_000
"""The most characters that a variable of an opening may hold."""
_PARTS = compile_pattern(r"(\s+|\{\{\w+\}\})")


def _build_pattern(template: str, value: str = rf".{{1,{_LONGEST_VALUE}}}?") -> str:
    """Build a regular expression for fixed words and variables; all white space is the same."""
    return "".join(
        r"\s+" if part.isspace() else value if part.startswith("{{") else re.escape(part)
        for part in _PARTS.split(template)
        if part
    )


_BEFORE = compile_pattern(
    r"[\s\ufeff\u200b]*(?:<([a-zA-Z][\w-]*)(?:\s[^<>]*)?>.*?</\1>\s*)*",
    re.DOTALL,
)
"""What a harness may put before a prompt: blank lines, tagged blocks."""
_AT_START = compile_pattern("|".join(map(_build_pattern, OPENINGS)), re.DOTALL)
_BEGINNINGS = f"(?:{_build_pattern(INJECTION)}|{_build_pattern(FORK)})"
_OF_FLEET = compile_pattern(f"{_build_pattern(INSTRUCTION)}|{_BEGINNINGS}", re.DOTALL)
_LINE = compile_pattern(rf"(?m)^[^\S\n]*(?=(?s:{_OF_FLEET.pattern}))")
_INSIDE_LINE = compile_pattern(
    rf"{_build_pattern(f'{INSTRUCTION} Write a handoff document for it now.')}"
    rf"|{_build_pattern(f'{INJECTION} you continue its work. Handoff document:')}"
    rf"|{_build_pattern(f'{FORK} you begin with what it knew. Handoff document:')}",
    re.DOTALL,
)
"""More of their first words, to match them after other words on a line.

A paste goes where the cursor was.
"""
_LAST_LINE = compile_pattern(_build_pattern(CLOSING, r"[\w/-]{4,80}"))
_INSTRUCTION = compile_pattern(_build_pattern(INSTRUCTION), re.DOTALL)
_INJECTION = compile_pattern(_BEGINNINGS, re.DOTALL)
_SKILL = compile_pattern(_build_pattern(SKILL), re.DOTALL)
_ABOUT = compile_pattern(
    rf"(?:\A|\s)(?:{'|'.join(map(_build_pattern, (GOAL_LABEL, NEXT_LABEL, OPERATOR_LABEL)))})\s+(?=\S)"
)
_STEPS = compile_pattern(rf"\s{_build_pattern('1. Begin your answer with this line, by itself:')}")
_LAST_STEP = compile_pattern(
    rf"(?:{_build_pattern('3. Continue the work from where it stopped.')}"
    rf"|{_build_pattern(LAST_STEP_OF_FORK)})\s+{_LAST_LINE.pattern}"
)
"""The end of an injection: a goal inside it may contain a line like its last one."""
_TASK = compile_pattern(rf"(?m)^[^\S\n]*{_build_pattern(TASK_LABEL)}[^\S\n]*$")
_DOCUMENT = compile_pattern(
    rf"{_build_pattern('Handoff document:')}\s+(?P<path>\S.{{0,4000}}?)\s+{_build_pattern('Reason for the handoff:')}",
    re.DOTALL,
)


class TypedPrompt(Struct, frozen=True):
    """One such prompt in a text: where it begins and ends."""

    text: str
    start: int
    end: int

    @property
    def human_words(self) -> str:
        """The words of people in it: the goal and the operator's note that it passes on."""
        prompt = self.text[self.start : self.end]
        if _INJECTION.match(prompt):
            steps = list(_STEPS.finditer(prompt))  # the goal may contain a line like these
            sections = _ABOUT.split(prompt[: steps[-1].start()] if steps else "")
            return "\n".join(part.strip() for part in sections[1:])
        if _SKILL.match(prompt) and (labels := list(_TASK.finditer(prompt))):
            return prompt[labels[-1].end() :].strip()
        return ""

    @property
    def document(self) -> str:
        """The path of the handoff document that it asks a successor to read; else empty."""
        own = self.text[self.start : self.end]
        named = _DOCUMENT.search(own) if _INJECTION.match(own) else None
        return " ".join(named["path"].split()) if named else ""


def find_typed_prompt(text: str, start_at: int = 0) -> TypedPrompt | None:
    """Find the first prompt of tasuki's own in a text from `start_at` on; None if there is none.

    At the beginning, after what a harness puts there, its first words are enough. Further on,
    after words of the user, the prompts of a fleet are recognized if their last line is there
    too; after words on the same line, only if no other one begins before that.
    """
    start = 0 if start_at else _find_start(text)
    if not start_at and _AT_START.match(text, start):
        end = _find_end(text, start) if _OF_FLEET.match(text, start) else 0
        return TypedPrompt(text, start, end or len(text))
    return _find_after_words(text, start_at) if _LAST_LINE.search(text, start_at) else None


def _list_typed_prompts(text: str) -> Iterator[TypedPrompt]:
    prompt = find_typed_prompt(text)
    while prompt:
        yield prompt
        prompt = find_typed_prompt(text, prompt.end)


def _find_after_words(text: str, start_at: int) -> TypedPrompt | None:
    line = _LINE.search(text, start_at)
    start = line.end() if line else len(text)
    for inside in _INSIDE_LINE.finditer(text, start_at, start):
        end = _find_end(text, inside.start())
        if end and not _OF_FLEET.search(text, inside.end(), end):
            return TypedPrompt(text, inside.start(), end)
    end = _find_end(text, start)
    return TypedPrompt(text, start, end) if end else None


def _find_end(text: str, start: int) -> int:
    """Find where a prompt of the fleet that begins at `start` ends; 0 without a last line."""
    own = _INJECTION.match(text, start)
    last = _LAST_STEP.search(text, own.end()) if own else None
    if own and last and not _OF_FLEET.search(text, own.end(), last.start()):
        return last.end()
    end = _LAST_LINE.search(text, start)
    return end.end() if end else 0


def _find_start(text: str) -> int:
    """Find where a prompt begins after what a harness may put before it."""
    before = _BEFORE.match(text)
    return before.end() if before else 0


def is_document_request(text: str) -> bool:
    """Tell whether a prompt asks an agent of a fleet for its handoff document.

    Such a prompt may also be inside it.
    """
    return any(_INSTRUCTION.match(text, prompt.start) for prompt in _list_typed_prompts(text))


def is_typed_by_tasuki(text: str) -> bool:
    """Tell whether a prompt is one of tasuki's own, or begins with one."""
    return bool(_AT_START.match(text, _find_start(text)))


def extract_human_words(text: str) -> str:
    """Return a prompt without what tasuki itself typed: empty if that is all of it.

    What a person wrote is kept: before and after it, and a goal or note that it passes on.
    """
    prompts = list(_list_typed_prompts(text))
    if not prompts:
        return text
    end = prompts[0].start if _BEFORE.fullmatch(text, 0, prompts[0].start) else 0
    parts = []
    for prompt in prompts:
        parts += [text[end : prompt.start], prompt.human_words]
        end = prompt.end
    return "\n\n".join(part.strip() for part in (*parts, text[end:]) if part.strip())


def find_named_document(text: str) -> str:
    """Find the path of the handoff document that a prompt asks a successor to read; else empty."""
    return next((one.document for one in _list_typed_prompts(text) if one.document), "")


def is_handoff_prompt(text: str) -> bool:
    """Tell whether a prompt is the brief of a handoff or begins with one.

    The name of a skill may come first.
    """
    return bool(_HANDOFF.match(text))


def find_handed_goal(text: str) -> str:
    """Find the goal in a brief, or in a fleet's prompt to a successor; empty for any other text."""
    if is_handoff_prompt(text):
        goal = _GOAL.search(text, max(text.find(_RECORD_END), 0))
        return text[goal.end() :].strip() if goal else extract_words_after_handoff(text)
    prompt = find_typed_prompt(text)
    return prompt.human_words if prompt and _INJECTION.match(text, prompt.start) else ""


def extract_words_after_handoff(text: str) -> str:
    """Return what the user wrote after a handoff that a program put before it; else empty.

    The closing mark is in no document that was handed on; the sentence after it may be.
    """
    closed = _CLOSED.search(text)
    return text[closed.end() :].strip() if closed else ""
