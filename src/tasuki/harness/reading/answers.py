"""What an agent asked with a tool, and what the user chose or wrote: one form in all threads.

    asked "Which database?", the user chose "Postgres"
    asked "Which name?", the user answered "call it lantern, never beacon"

Question and choices are the agent's words; only what was answered without a choice is the user's.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tasuki.patterns import compile_pattern


class OfferedOption(Struct, gc=False):
    """One choice of a question, as calls of such tools name it."""

    label: str = ""
    preview: str = ""


class OfferedQuestion(Struct, gc=False):
    """One question of a call."""

    question: str = ""
    options: list[OfferedOption | str] = []

    def list_labels(self) -> list[str]:
        """List the choices, also without what the program takes off their ends."""
        labels = [" ".join((o if isinstance(o, str) else o.label).split()) for o in self.options]
        return [*labels, *(label.removesuffix(" (Recommended)") for label in labels)]


class GivenAnswer(NamedTuple):
    """An answer, and whether it is a choice that the agent had worded."""

    question: str
    answer: str
    is_chosen: bool


_LINE = compile_pattern(r'(?m)^asked "(.*)", the user (chose|answered) "(.*)"$')


def format_answers(questions: Sequence[OfferedQuestion], answers: Sequence[str]) -> str:
    """Format the answers to the questions of a call, a line each; empty ones are left out."""
    lines = []
    for asked, answer in zip(questions, answers, strict=False):
        folded = " ".join(answer.split())
        if not folded:
            continue
        verb = "chose" if _is_choice(folded, asked.list_labels()) else "answered"
        lines.append(f'asked "{" ".join(asked.question.split())}", the user {verb} "{folded}"')
    return "\n".join(lines)


def _is_choice(answer: str, labels: Sequence[str]) -> bool:
    """Return whether an answer is made of the labels of choices alone."""
    rest = answer
    for label in sorted(filter(None, labels), key=len, reverse=True):
        rest = rest.replace(label, "")
    return rest != answer and not rest.strip(" ,;")


def parse_answers(text: str) -> list[GivenAnswer]:
    """Parse what `format_answers` wrote; empty for any other text."""
    return [GivenAnswer(q, answer, verb == "chose") for q, verb, answer in _LINE.findall(text)]


def extract_own_answers(text: str) -> str:
    """Return the user's own words in an answer: all of a text that answers no question."""
    given = parse_answers(text)
    return "\n".join(one.answer for one in given if not one.is_chosen) if given else text
