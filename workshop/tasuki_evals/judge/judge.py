"""A model as judge of briefs: it answers probes from the brief alone, and judges the answers.

    brief → probes → answers from the brief → verdicts → figures, next to the agreement with people

A judge whose agreement with the labels of people is not measured, or is below 90 %, gives
the opinion of a model and no more. See workshop/evaluation.md.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from tasuki.draft.authors.author import AuthorReply, format_cost
from tasuki.errors import AuthorFailed
from tasuki.model import Authorship
from tasuki_evals.judge import probes as judge_probes
from tasuki_evals.judge.judge_briefs import JudgeSubject, UnjudgedItem
from tasuki_evals.judge.judge_model import PROBE_KINDS, BriefJudge, JudgeAnswer, JudgeVerdict
from tasuki_evals.judge.judge_model import UnreadableAnswer as Unreadable
from tasuki_evals.judge.probes import JudgeProbe
from tasuki_evals.statistics import Proportion, build_proportion

MAX_FAILURES = 3
"""Consecutive failed requests after which the remaining ones are skipped."""
_WRITTEN_KINDS: tuple[Literal["recall", "decision"], ...] = ("recall", "decision")
_T = TypeVar("_T")


class JudgedBrief(Struct, frozen=True):
    """A brief that was shown to the model, by its case's id, or thread and entry of its cut."""

    case: str
    goal: str
    sha256: str
    text: str = ""
    by: Authorship = Authorship()


class AnsweredProbe(Struct, frozen=True):
    """What is judged, and what a person labels: a probe of a brief, and the answer to it.

    `answer` is None, and `problem` says why, if the model gave none.
    """

    case: str
    brief_sha256: str
    probe: JudgeProbe
    answer: JudgeAnswer | None
    problem: str = ""


class JudgedProbe(Struct, frozen=True):
    """An item and the verdict on it."""

    item: AnsweredProbe
    verdict: JudgeVerdict


class JudgeCost(Struct, frozen=True):
    """The cost of the requests; `price` in US dollars, None if it is not known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: float | None = None

    def __str__(self) -> str:
        return format_cost(self.requests, self.input_tokens, self.output_tokens, self.price)


class JudgeReport(Struct, frozen=True):
    """The findings of a run. `stopped` says why it ended early, if it did."""

    judge: str
    briefs: tuple[JudgedBrief, ...]
    judged: tuple[JudgedProbe, ...]
    left_out: tuple[UnjudgedItem, ...]
    cost: JudgeCost
    stopped: str = ""


class _EndpointStopped(Exception):
    """The endpoint does not answer any more."""


class JudgeRun:
    """Judges briefs one after the other. Each is passed to `done` with its verdicts when finished."""

    def __init__(
        self, judge: BriefJudge, *, tell: Callable[[str], None] = lambda what: None,
        done: Callable[[JudgedBrief, Sequence[JudgedProbe]], None] = lambda brief, judged: None,
    ) -> None:  # fmt: skip
        self.judge, self.tell, self.done = judge, tell, done
        self.briefs: list[JudgedBrief] = []
        self.judged: list[JudgedProbe] = []
        self.left_out: list[UnjudgedItem] = []
        self._failures = 0

    def judge_subjects(self, subjects: Iterable[JudgeSubject]) -> JudgeReport:
        """Return the report on briefs that are made one after the other.

        Raises AuthorFailed if the model does not answer at all, and what making the briefs raises.
        """

        def iterate_briefs() -> Iterator[tuple[JudgedBrief, Iterator[AnsweredProbe]]]:
            for subject in subjects:
                named = (subject.name, subject.goal, subject.sha256)
                brief = JudgedBrief(*named, subject.brief, subject.authorship)
                yield brief, self._answer_probes(subject)

        return self._build_report(iterate_briefs())

    def judge_saved(
        self, saved: Iterable[tuple[JudgedBrief, Sequence[AnsweredProbe]]]
    ) -> JudgeReport:
        """Return the report on saved items: only the verdicts are new. Raises AuthorFailed."""
        return self._build_report((brief, iter(items)) for brief, items in saved)

    def _build_report(
        self, briefs: Iterable[tuple[JudgedBrief, Iterator[AnsweredProbe]]]
    ) -> JudgeReport:
        stopped = ""
        try:
            for brief, items in briefs:
                self.briefs.append(brief)
                begun = len(self.judged)
                try:
                    for item in items:
                        self.judged.append(self._judge_item(item))
                finally:
                    if judged := self.judged[begun:]:
                        self.done(brief, judged)
        except _EndpointStopped as error:
            stopped = str(error)
        replies = self.judge.replies
        return JudgeReport(
            judge=self.judge.name, briefs=tuple(self.briefs), judged=tuple(self.judged),
            left_out=tuple(self.left_out), cost=sum_costs(replies, len(replies)), stopped=stopped,
        )  # fmt: skip

    def _answer_probes(self, subject: JudgeSubject) -> Iterator[AnsweredProbe]:
        """Yield the probes of a brief, each with the answer from it."""
        shown = judge_probes.find_brief_refs(subject)
        for probe in self._create_probes(subject):
            self.tell(f"{subject.name}: {probe.id}")
            answer, problem = self._try_work(
                lambda probe=probe: self.judge.answer_question(subject.brief, probe.question, shown)  # type: ignore[misc]
            )
            yield AnsweredProbe(subject.name, subject.sha256, probe, answer, problem)

    def _create_probes(self, subject: JudgeSubject) -> list[JudgeProbe]:
        found = list(judge_probes.derive_probes(subject))
        for kind in _WRITTEN_KINDS:
            self.tell(f"{subject.name}: questions of {kind}")
            probes, problem = self._try_work(
                lambda kind=kind: judge_probes.write_probes(
                    subject, kind, self.judge, self.left_out
                )  # type: ignore[misc]
            )
            found += probes or []
            if problem:
                self.left_out.append(UnjudgedItem(f"{subject.name} {kind}", problem))
        return sorted(found, key=lambda probe: PROBE_KINDS.index(probe.kind))

    def _judge_item(self, item: AnsweredProbe) -> JudgedProbe:
        probe, answer = item.probe, item.answer
        if answer is None:
            return JudgedProbe(item, JudgeVerdict(None, problem=item.problem))
        self.tell(f"{item.case}: {probe.id}, verdict")
        shown = {*probe.refs, *answer.refs}
        verdict, problem = self._try_work(
            lambda: self.judge.judge_answer(
                probe.kind, probe.question, probe.truth, probe.entries, format_answer(answer), shown
            )
        )
        return JudgedProbe(item, verdict or JudgeVerdict(None, problem=problem))

    def _try_work(self, work: Callable[[], _T]) -> tuple[_T | None, str]:
        """Return the result of some work, or why it gives nothing.

        Raises AuthorFailed if the model never answered, _EndpointStopped if it does not any more.
        """
        try:
            result = work()
        except Unreadable as error:
            self._failures = 0
            return None, str(error)
        except AuthorFailed as error:
            if not self.judge.replies:
                raise
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                raise _EndpointStopped(str(error)) from error
            return None, str(error)
        self._failures = 0
        return result, ""


def format_answer(answer: JudgeAnswer) -> str:
    """Return an answer as it is shown to the judge, with what it cites."""
    refs = f" [{', '.join(f'#{ref}' for ref in answer.refs)}]" if answer.refs else ""
    return f"{answer.text}{refs}"


def sum_costs(parts: Sequence[AuthorReply | Authorship], requests: int) -> JudgeCost:
    """Return the cost of some replies or authors together."""
    prices = [one.price for one in parts if one.price is not None]
    return JudgeCost(
        requests, sum(one.input_tokens for one in parts), sum(one.output_tokens for one in parts),
        sum(prices) if prices else None,
    )  # fmt: skip


class JudgeFigures(Struct, frozen=True):
    """How many answers passed, by kind of probe; unjudged ones are in no share."""

    passed: dict[str, Proportion]
    """By kind, and of `all`."""
    unjudged: int
    uncited: int
    """Answers without a reference, though their brief has some."""
    invented_in_answers: int
    """References of answers that are not in the brief."""
    invented_in_verdicts: int
    """References of verdicts that the judge was not shown."""


def compute_figures(judged: Sequence[JudgedProbe]) -> JudgeFigures:
    """Return the figures of some verdicts."""
    clear = [one for one in judged if one.verdict.verdict]
    answers = [one.item.answer for one in judged if one.item.answer]
    passed = {}
    for kind in (*PROBE_KINDS, "all"):
        of_kind = [one for one in clear if kind in ("all", one.item.probe.kind)]
        hits = sum(one.verdict.verdict == "pass" for one in of_kind)
        passed[kind] = build_proportion(hits, len(of_kind))
    return JudgeFigures(
        passed=passed,
        unjudged=len(judged) - len(clear),
        uncited=sum(answer.uncited for answer in answers),
        invented_in_answers=sum(len(answer.invented) for answer in answers),
        invented_in_verdicts=sum(len(one.verdict.invented) for one in judged),
    )
