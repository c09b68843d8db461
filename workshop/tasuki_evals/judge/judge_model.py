"""The model as judge: the requests to it, and the strict parsing of its answers.

It writes questions, answers them from a brief, and judges the answers. Texts of threads and
of the model itself are put into fences whose names cannot be guessed; the rules are in the
system prompt.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from msgspec import Struct

from tasuki.config.settings import LoadedSettings
from tasuki.draft.authors.answer import UnusableAnswer, find_last_object
from tasuki.draft.authors.author import AuthorDialogue, AuthorReply, AuthorTurn
from tasuki.draft.authors.thread_view import create_fence
from tasuki.draft.models import providers
from tasuki.draft.models.client import ModelClient
from tasuki.draft.models.providers import ModelEndpoint
from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable
from tasuki_evals.judge.prompts import list_critiques, render_judge_prompt

ProbeKind = Literal["recall", "artifact", "continuation", "decision"]
PROBE_KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)
MAX_TEXT = 4_000
"""Characters of one text in an answer."""
MAX_ANSWER = 100_000
MAX_REFS = 40
_OFFLINE_HINT = " Without a model: --author offline."
_OFFLINE_EXTRA_HINT = " Without it: --author offline."
_T = TypeVar("_T")


class UnreadableAnswer(AuthorFailed):
    """The model answered twice, and neither answer could be read."""


class PieceQuestion(Struct, frozen=True):
    """A question about one numbered piece of a record, with what the piece says."""

    piece: int
    question: str
    answer: str


class JudgeAnswer(Struct, frozen=True):
    """A brief's answer to a question. `refs` are in the brief; `invented` were cited but are not."""

    text: str
    told: bool = True
    refs: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
    uncited: bool = False
    """It names no entry, though its brief does."""


class JudgeVerdict(Struct, frozen=True):
    """The judgement of an answer; `verdict` is None if there is none, and `problem` says why."""

    verdict: Literal["pass", "fail"] | None
    critique: str = ""
    refs: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
    """Refs that it named without having been shown them."""
    problem: str = ""


def choose_endpoint(loaded: LoadedSettings) -> ModelEndpoint:
    """Return the model that judges: the one of the settings, never that of a thread.

    Raises ModelUnavailable, which names the setting.
    """
    name, notes = providers.choose_model(loaded, "")
    if not name.model:
        own = " ".join(notes)
        raise ModelUnavailable(
            f"No model for the judge. {own} Name one: --model provider/model-id, or model = "
            '"provider/model-id" in your settings (tasuki config), or TASUKI_MODEL. '
            "Without a model: tasuki eval cases.".replace("  ", " ")
        )
    try:
        return providers.resolve_endpoint(loaded, "")
    except ModelUnavailable as error:  # The author of the briefs is a separate setting here.
        raise ModelUnavailable(str(error).replace(_OFFLINE_HINT, "")) from None


class BriefJudge:
    """One model as judge. `seconds` limits each answer; `replies` is everything it answered."""

    def __init__(self, endpoint: ModelEndpoint, seconds: float) -> None:
        try:
            self.client = ModelClient(endpoint, seconds)
        except ExtraMissing as error:
            reason = str(error).replace("The author model", "A judge")
            raise ExtraMissing(reason.replace(_OFFLINE_EXTRA_HINT, "")) from error
        self.name = f"{endpoint.provider}/{endpoint.model}"
        self.window = endpoint.window
        self.replies: list[AuthorReply] = []

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    def write_questions(
        self, kind: Literal["recall", "decision"], goal: str, pieces: str, count: int,
        problem: Callable[[PieceQuestion], str],
    ) -> list[PieceQuestion]:  # fmt: skip
        """Return up to `count` questions on numbered pieces for which `problem` is empty.

        Raises AuthorFailed, UnreadableAnswer if it writes none that can be asked, twice in a row.
        """
        mark = create_fence(goal, pieces)
        prompt = render_judge_prompt(
            f"write_{kind}", goal=goal, pieces=pieces, count=count, fence=mark
        )
        return self._ask_and_read(
            render_judge_prompt("write_system"), prompt, _QUESTIONS,
            lambda text: _parse_questions(text, count, problem),
        )  # fmt: skip

    def answer_question(self, brief: str, question: str, shown: Collection[int]) -> JudgeAnswer:
        """Return a brief's answer to a question; `shown` are the refs in the brief.

        Raises AuthorFailed, UnreadableAnswer.
        """
        mark = create_fence(brief, question)
        prompt = render_judge_prompt("answer", brief=brief, question=question, fence=mark)
        return self._ask_and_read(
            render_judge_prompt("answer_system"), prompt, _ANSWER,
            lambda text: _parse_answer(text, shown),
        )  # fmt: skip

    def judge_answer(
        self, kind: ProbeKind, question: str, truth: str, entries: str, answer: str,
        shown: Collection[int],
    ) -> JudgeVerdict:  # fmt: skip
        """Return the verdict on an answer; `shown` are the refs in question, truth and answer.

        Raises AuthorFailed, UnreadableAnswer.
        """
        mark = create_fence(question, truth, entries, answer)
        prompt = render_judge_prompt(
            "judge", question=question, truth=truth, entries=entries, answer=answer, fence=mark
        )
        rules = f"kind_{kind}"
        system = render_judge_prompt("judge_system", kind=render_judge_prompt(rules))
        return self._ask_and_read(
            system, prompt, _VERDICT,
            lambda text: _parse_verdict(text, shown, list_critiques(rules)),
        )  # fmt: skip

    def _ask_and_read(
        self, system: str, prompt: str, schema: Mapping[str, Any], read: Callable[[str], _T]
    ) -> _T:
        """Return the parsed answer to a prompt; ask once more if it cannot be read."""

        def send_turns(turns: Sequence[AuthorTurn]) -> AuthorReply:
            reply = self.client.ask(system, turns, schema)
            self.replies.append(reply)
            return reply

        talk, problem = AuthorDialogue(send_turns), ""
        for question in (prompt, None):
            try:
                again = question or render_judge_prompt("again", problem=problem)
                return read(talk.ask_question(again)[:MAX_ANSWER])
            except UnusableAnswer as error:
                problem = str(error)
        raise UnreadableAnswer(f"The answer of {self.name} could not be used: {problem}")


def _parse_questions(
    text: str, count: int, problem: Callable[[PieceQuestion], str]
) -> list[PieceQuestion]:
    items = _find_object(text, "questions")["questions"]
    if not isinstance(items, list):
        raise UnusableAnswer("questions must be a list.")
    by_piece: dict[int, PieceQuestion] = {}
    complaint = "it holds no question."
    for item in items[:MAX_REFS]:
        if not isinstance(item, dict):
            continue
        piece = item.get("piece")
        if not isinstance(piece, int) or isinstance(piece, bool):
            complaint = "piece must be the number of a piece."
            continue
        one = PieceQuestion(piece, _get_text(item.get("question")), _get_text(item.get("answer")))
        why = "question and answer must not be empty."
        if one.question and one.answer:
            why = problem(one)
        if why:
            complaint = why
        else:
            by_piece.setdefault(piece, one)
    if not by_piece:
        raise UnusableAnswer(complaint)
    return list(by_piece.values())[:count]


def _parse_answer(text: str, shown: Collection[int]) -> JudgeAnswer:
    found = _find_object(text, "answer")
    answer_text, told = _get_text(found.get("answer")), found.get("told")
    if not answer_text:
        raise UnusableAnswer("answer must be a text that is not empty.")
    if not isinstance(told, bool):
        raise UnusableAnswer("told must be true or false.")
    refs, invented = _split_refs(found.get("refs"), shown)
    return JudgeAnswer(answer_text, told, refs, invented, uncited=bool(told and shown and not refs))


def _parse_verdict(text: str, shown: Collection[int], examples: Collection[str]) -> JudgeVerdict:
    found = _find_object(text, "verdict")
    verdict, critique = found["verdict"], _get_text(found.get("critique"))
    if verdict not in ("pass", "fail"):
        raise UnusableAnswer('verdict must be "pass" or "fail".')
    if not critique:
        raise UnusableAnswer("critique must be a sentence that says what decides.")
    if critique in examples:
        raise UnusableAnswer("critique repeats that of an example; it must speak of this answer.")
    refs, invented = _split_refs(found.get("refs"), shown)
    return JudgeVerdict(verdict, critique, refs, invented)


def _find_object(text: str, key: str) -> dict[str, Any]:
    found, error = find_last_object(text, (key,))
    if found is None:
        why = f" ({error})" if error else ""
        raise UnusableAnswer(f"it holds no JSON object with the key {key}{why}.")
    return found


def _get_text(value: object) -> str:
    return " ".join(value[:MAX_TEXT].split()) if isinstance(value, str) else ""


def _split_refs(value: object, shown: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the refs that were shown, and those that were not."""
    if not isinstance(value, list):
        raise UnusableAnswer("refs must be a list of numbers.")
    named: dict[int, None] = {}
    for item in value[:MAX_REFS]:
        if isinstance(item, str) and (match := re.fullmatch(r"#?(\d{1,9})", item.strip())):
            item = int(match[1])
        if not isinstance(item, int) or isinstance(item, bool):
            raise UnusableAnswer("refs must be a list of numbers.")
        named[item] = None
    return tuple(r for r in named if r in shown), tuple(r for r in named if r not in shown)


def _build_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these keys, as strict endpoints require it."""
    return {
        "type": "object", "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip


_STRING = {"type": "string"}
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_QUESTION = _build_schema(piece={"type": "integer"}, question=_STRING, answer=_STRING)
_QUESTIONS = _build_schema(questions={"type": "array", "items": _QUESTION})
_ANSWER = _build_schema(answer=_STRING, refs=_NUMBERS, told={"type": "boolean"})
_PASS_OR_FAIL = {"type": "string", "enum": ["pass", "fail"]}
_VERDICT = _build_schema(critique=_STRING, refs=_NUMBERS, verdict=_PASS_OR_FAIL)
