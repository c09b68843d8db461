"""A model as judge of briefs: it answers probes from the brief alone, and judges the answers.

    brief → probes → answers from the brief → verdicts → figures, beside the agreement with people

A judge whose agreement with the labels of people is not measured, or is below 90 %, says what a
model thinks and no more. See docs/evaluation.md.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from tasuki.draft.authors.asker import spending
from tasuki.errors import AuthorFailed
from tasuki.evals import judge_probes
from tasuki.evals.judge_briefs import LeftOut, Subject
from tasuki.evals.judge_model import KINDS, Answer, Judge, Unread, Verdict
from tasuki.evals.judge_probes import Probe
from tasuki.evals.proportion import Proportion, proportion
from tasuki.model import Authorship

PATIENCE = 3
"""Requests in a row that an endpoint may fail before the rest is given up."""
_WRITTEN: tuple[Literal["recall", "decision"], ...] = ("recall", "decision")
_T = TypeVar("_T")


class Brief(Struct, frozen=True):
    """A brief that was put before the model, by its case's id, or thread and entry of its cut."""

    case: str
    goal: str
    sha256: str
    text: str = ""
    by: Authorship = Authorship()


class Item(Struct, frozen=True):
    """What is judged, and what a person labels: a probe of a brief, and the answer to it.

    `answer` is None, and `problem` says why, where the model gave none.
    """

    case: str
    brief_sha256: str
    probe: Probe
    answer: Answer | None
    problem: str = ""


class Judged(Struct, frozen=True):
    """An item and the verdict on it."""

    item: Item
    verdict: Verdict


class Cost(Struct, frozen=True):
    """What asking took; `price` in US dollars, None where nobody knows it."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: float | None = None

    def __str__(self) -> str:
        return spending(self.requests, self.input_tokens, self.output_tokens, self.price)


class Report(Struct, frozen=True):
    """What a run found. `stopped` says why it ended early, if it did."""

    judge: str
    briefs: tuple[Brief, ...]
    judged: tuple[Judged, ...]
    left_out: tuple[LeftOut, ...]
    cost: Cost
    stopped: str = ""


class _Stopped(Exception):
    """The endpoint does not answer any more."""


# -- running -------------------------------------------------------------------------------


class Run:
    """Judges briefs one after the other. Each is handed to `done` with its verdicts when it is through."""

    def __init__(
        self,
        judge: Judge,
        *,
        tell: Callable[[str], None] = lambda what: None,
        done: Callable[[Brief, Sequence[Judged]], None] = lambda brief, judged: None,
    ) -> None:
        self.judge = judge
        self.tell = tell
        self.done = done
        self.briefs: list[Brief] = []
        self.judged: list[Judged] = []
        self.left_out: list[LeftOut] = []
        self._failures = 0

    def over(self, subjects: Iterable[Subject]) -> Report:
        """The report on briefs that are made one after the other.

        Raises AuthorFailed if the model does not answer at all, and what making the briefs raises.
        """

        def each() -> Iterator[tuple[Brief, Iterator[Item]]]:
            for subject in subjects:
                brief = Brief(subject.name, subject.goal, subject.sha256, subject.brief, subject.by)
                yield brief, self._answered(subject)

        return self._report(each())

    def again(self, kept: Iterable[tuple[Brief, Sequence[Item]]]) -> Report:
        """The report on items that were kept: only the verdicts are new. Raises AuthorFailed."""
        return self._report((brief, iter(items)) for brief, items in kept)

    def _report(self, each: Iterable[tuple[Brief, Iterator[Item]]]) -> Report:
        stopped = ""
        try:
            for brief, items in each:
                self.briefs.append(brief)
                begun = len(self.judged)
                try:
                    for item in items:
                        self.judged.append(self._verdict(item))
                finally:
                    if judged := self.judged[begun:]:
                        self.done(brief, judged)
        except _Stopped as error:
            stopped = str(error)
        return Report(
            judge=self.judge.name,
            briefs=tuple(self.briefs),
            judged=tuple(self.judged),
            left_out=tuple(self.left_out),
            cost=cost(self.judge),
            stopped=stopped,
        )

    def _answered(self, subject: Subject) -> Iterator[Item]:
        """The probes of a brief, each with the answer from it."""
        shown = judge_probes.refs_of(subject)
        for probe in self._probes(subject):
            self.tell(f"{subject.name}: {probe.id}")
            answer, problem = self._tried(
                lambda probe=probe: self.judge.answer(subject.brief, probe.question, shown)  # type: ignore[misc]
            )
            yield Item(subject.name, subject.sha256, probe, answer, problem)

    def _probes(self, subject: Subject) -> list[Probe]:
        found = list(judge_probes.derived(subject))
        for kind in _WRITTEN:
            self.tell(f"{subject.name}: questions of {kind}")
            probes, problem = self._tried(
                lambda kind=kind: judge_probes.written(subject, kind, self.judge, self.left_out)  # type: ignore[misc]
            )
            found += probes or []
            if problem:
                self.left_out.append(LeftOut(f"{subject.name} {kind}", problem))
        return sorted(found, key=lambda probe: KINDS.index(probe.kind))

    def _verdict(self, item: Item) -> Judged:
        probe, answer = item.probe, item.answer
        if answer is None:
            return Judged(item, Verdict(None, problem=item.problem))
        self.tell(f"{item.case}: {probe.id}, verdict")
        verdict, problem = self._tried(
            lambda: self.judge.verdict(
                probe.kind,
                probe.question,
                probe.truth,
                probe.entries,
                told(answer),
                {*probe.refs, *answer.refs},
            )
        )
        return Judged(item, verdict or Verdict(None, problem=problem))

    def _tried(self, work: Callable[[], _T]) -> tuple[_T | None, str]:
        """What some work gives, or why it gives nothing.

        Raises AuthorFailed if the model never answered, _Stopped if it does not any more.
        """
        try:
            result = work()
        except Unread as error:
            self._failures = 0
            return None, str(error)
        except AuthorFailed as error:
            if not self.judge.replies:
                raise
            self._failures += 1
            if self._failures >= PATIENCE:
                raise _Stopped(str(error)) from error
            return None, str(error)
        self._failures = 0
        return result, ""


def told(answer: Answer) -> str:
    """An answer as it is put before the judge, with what it cites."""
    refs = f" [{', '.join(f'#{ref}' for ref in answer.refs)}]" if answer.refs else ""
    return f"{answer.text}{refs}"


def cost(judge: Judge) -> Cost:
    """What all requests of a judge took."""
    prices = [reply.price for reply in judge.replies if reply.price is not None]
    return Cost(
        requests=len(judge.replies),
        input_tokens=sum(reply.input_tokens for reply in judge.replies),
        output_tokens=sum(reply.output_tokens for reply in judge.replies),
        price=sum(prices) if prices else None,
    )


# -- figures -------------------------------------------------------------------------------


class Figures(Struct, frozen=True):
    """How many answers passed, by kind of probe; what was not judged is in no share."""

    passed: dict[str, Proportion]
    """By kind, and of `all`."""
    unjudged: int
    uncited: int
    """Answers without a reference, though their brief has some."""
    invented_in_answers: int
    """References of answers that do not stand in the brief."""
    invented_in_verdicts: int
    """References of verdicts that the judge was not shown."""


def figures(judged: Sequence[Judged]) -> Figures:
    """The figures of some verdicts."""
    clear = [one for one in judged if one.verdict.verdict]
    answers = [one.item.answer for one in judged if one.item.answer]
    passed = {}
    for kind in (*KINDS, "all"):
        of = [one for one in clear if kind in ("all", one.item.probe.kind)]
        passed[kind] = proportion(sum(one.verdict.verdict == "pass" for one in of), len(of))
    return Figures(
        passed=passed,
        unjudged=len(judged) - len(clear),
        uncited=sum(answer.uncited for answer in answers),
        invented_in_answers=sum(len(answer.invented) for answer in answers),
        invented_in_verdicts=sum(len(one.verdict.invented) for one in judged),
    )
