"""The model as judge: what is asked of it, and how strictly its answers are read.

It writes questions, answers them from a brief, and judges the answers. Texts of threads and of the
model itself go into fences whose names nobody could foresee; the rules stand in the system prompt.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from msgspec import Struct

from tasuki.config import Loaded
from tasuki.draft.authors import providers
from tasuki.draft.authors.answer import Unusable, last_object
from tasuki.draft.authors.asker import Reply, Talk, Turn
from tasuki.draft.authors.client import Client
from tasuki.draft.authors.providers import Endpoint
from tasuki.draft.authors.view import fence
from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable
from tasuki.evals.prompts import critiques, render

Kind = Literal["recall", "artifact", "continuation", "decision"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_SAID = 4_000
"""Characters of one text in an answer."""
MAX_ANSWER = 100_000
MAX_REFS = 40
_OFFLINE = " Without a model: --author offline."
_OFFLINE_TOO = " Without it: --author offline."
_T = TypeVar("_T")


class Unread(AuthorFailed):
    """The model answered twice, and neither answer could be read."""


class Question(Struct, frozen=True):
    """A question about one numbered piece of a record, with what the piece says."""

    piece: int
    question: str
    answer: str


class Answer(Struct, frozen=True):
    """What a brief tells of a question. `refs` stand in the brief; `invented` were named and do not."""

    text: str
    told: bool = True
    refs: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
    uncited: bool = False
    """It names no entry, though its brief does."""


class Verdict(Struct, frozen=True):
    """The judgement of an answer; `verdict` is None where there is none, and `problem` says why."""

    verdict: Literal["pass", "fail"] | None
    critique: str = ""
    refs: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
    """Refs that it named without having been shown them."""
    problem: str = ""


def endpoint(loaded: Loaded) -> Endpoint:
    """The model that judges: the one of the settings, never that of a thread.

    Raises ModelUnavailable, which names the setting.
    """
    name, notes = providers.chosen(loaded, "")
    if not name.model:
        own = " ".join(notes)
        raise ModelUnavailable(
            f"No model to judge with. {own} Name one: --model provider/model-id, or model = "
            '"provider/model-id" in your settings (tasuki config), or TASUKI_MODEL. '
            "Without a model: tasuki eval cases.".replace("  ", " ")
        )
    try:
        return providers.resolve(loaded, "")
    except ModelUnavailable as error:  # Who writes the briefs is another question here.
        raise ModelUnavailable(str(error).replace(_OFFLINE, "")) from None


class Judge:
    """One model under way. `seconds` bounds each answer; `replies` is everything it answered."""

    def __init__(self, found: Endpoint, seconds: float) -> None:
        try:
            self.client = Client(found, seconds)
        except ExtraMissing as error:
            reason = str(error).replace("The author model", "A judge").replace(_OFFLINE_TOO, "")
            raise ExtraMissing(reason) from error
        self.name = f"{found.provider}/{found.model}"
        self.window = found.window
        self.replies: list[Reply] = []

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    def questions(
        self,
        kind: Literal["recall", "decision"],
        goal: str,
        pieces: str,
        count: int,
        problem: Callable[[Question], str],
    ) -> list[Question]:
        """Up to `count` questions on numbered pieces, those of which `problem` says nothing.

        Raises AuthorFailed, Unread if twice there is none that can be asked.
        """
        mark = fence(goal, pieces)
        prompt = render(f"write_{kind}", goal=goal, pieces=pieces, count=count, fence=mark)
        return self._asked(
            render("write_system"),
            prompt,
            _QUESTIONS,
            lambda text: _questions(text, count, problem),
        )

    def answer(self, brief: str, question: str, shown: Collection[int]) -> Answer:
        """What a brief tells of a question; `shown` are the refs that stand in the brief.

        Raises AuthorFailed, Unread.
        """
        prompt = render("answer", brief=brief, question=question, fence=fence(brief, question))
        return self._asked(
            render("answer_system"), prompt, _ANSWER, lambda text: _answer(text, shown)
        )

    def verdict(
        self,
        kind: Kind,
        question: str,
        truth: str,
        entries: str,
        answer: str,
        shown: Collection[int],
    ) -> Verdict:
        """The verdict on an answer; `shown` are the refs that question, truth and answer hold.

        Raises AuthorFailed, Unread.
        """
        mark = fence(question, truth, entries, answer)
        prompt = render(
            "judge", question=question, truth=truth, entries=entries, answer=answer, fence=mark
        )
        rules = f"kind_{kind}"
        system = render("judge_system", kind=render(rules))
        return self._asked(
            system, prompt, _VERDICT, lambda text: _verdict(text, shown, critiques(rules))
        )

    def _asked(
        self, system: str, prompt: str, schema: Mapping[str, Any], read: Callable[[str], _T]
    ) -> _T:
        """What a prompt is answered with; asked for once more where it cannot be read."""

        def ask(turns: Sequence[Turn]) -> Reply:
            reply = self.client.ask(system, turns, schema)
            self.replies.append(reply)
            return reply

        talk, problem = Talk(ask), ""
        for question in (prompt, None):
            try:
                return read(talk.say(question or render("again", problem=problem))[:MAX_ANSWER])
            except Unusable as error:
                problem = str(error)
        raise Unread(f"The answer of {self.name} could not be used: {problem}")


# -- reading -------------------------------------------------------------------------------


def _questions(text: str, count: int, problem: Callable[[Question], str]) -> list[Question]:
    items = _object(text, "questions")["questions"]
    if not isinstance(items, list):
        raise Unusable("questions must be a list.")
    found: dict[int, Question] = {}
    wrong = "it holds no question."
    for item in items[:MAX_REFS]:
        if not isinstance(item, dict):
            continue
        piece = item.get("piece")
        if not isinstance(piece, int) or isinstance(piece, bool):
            wrong = "piece must be the number of a piece."
            continue
        one = Question(piece, _text(item.get("question")), _text(item.get("answer")))
        why = "question and answer must not be empty." if not (one.question and one.answer) else problem(one)  # fmt: skip
        if why:
            wrong = why
        else:
            found.setdefault(piece, one)
    if not found:
        raise Unusable(wrong)
    return list(found.values())[:count]


def _answer(text: str, shown: Collection[int]) -> Answer:
    found = _object(text, "answer")
    said, told = _text(found.get("answer")), found.get("told")
    if not said:
        raise Unusable("answer must be a text that is not empty.")
    if not isinstance(told, bool):
        raise Unusable("told must be true or false.")
    refs, invented = _refs(found.get("refs"), shown)
    return Answer(said, told, refs, invented, uncited=bool(told and shown and not refs))


def _verdict(text: str, shown: Collection[int], examples: Collection[str]) -> Verdict:
    found = _object(text, "verdict")
    verdict, critique = found["verdict"], _text(found.get("critique"))
    if verdict not in ("pass", "fail"):
        raise Unusable('verdict must be "pass" or "fail".')
    if not critique:
        raise Unusable("critique must be a sentence that says what decides.")
    if critique in examples:
        raise Unusable("critique repeats that of an example; it must speak of this answer.")
    refs, invented = _refs(found.get("refs"), shown)
    return Verdict(verdict, critique, refs, invented)


def _object(text: str, key: str) -> dict[str, Any]:
    found, error = last_object(text, (key,))
    if found is None:
        why = f" ({error})" if error else ""
        raise Unusable(f"it holds no JSON object with the key {key}{why}.")
    return found


def _text(value: object) -> str:
    return " ".join(value[:MAX_SAID].split()) if isinstance(value, str) else ""


def _refs(value: object, shown: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Refs that were shown, and those that were not."""
    if not isinstance(value, list):
        raise Unusable("refs must be a list of numbers.")
    named: dict[int, None] = {}
    for item in value[:MAX_REFS]:
        if isinstance(item, str) and (match := re.fullmatch(r"#?(\d{1,9})", item.strip())):
            item = int(match[1])
        if not isinstance(item, int) or isinstance(item, bool):
            raise Unusable("refs must be a list of numbers.")
        named[item] = None
    return tuple(r for r in named if r in shown), tuple(r for r in named if r not in shown)


# -- the forms of the answers --------------------------------------------------------------


def _form(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with these keys, as strict endpoints want it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_STRING = {"type": "string"}
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_ASKED = _form(piece={"type": "integer"}, question=_STRING, answer=_STRING)
_QUESTIONS = _form(questions={"type": "array", "items": _ASKED})
_ANSWER = _form(answer=_STRING, refs=_NUMBERS, told={"type": "boolean"})
_VERDICT = _form(
    critique=_STRING, refs=_NUMBERS, verdict={"type": "string", "enum": ["pass", "fail"]}
)
