"""The figures of a question set as tables: in all, by kind of question, by budget."""

from collections.abc import Iterator

from tasuki.evals.continuation import OWN
from tasuki.evals.question_runs import (
    QuestionReport,
    by_kind,
    methods_of,
    pair_cases,
    total,
)
from tasuki.evals.questions import Question, QuestionSet, Verdict
from tasuki.evals.report import NONE, Cell, Table, amount


def question_tables(report: QuestionReport, asked: QuestionSet) -> list[Table]:
    """All tables of a report; the one by budget if more than one was measured."""
    found = [_in_all(report, asked), _by_kind(report, asked)]
    return [*found, _by_budget(report)] if report.curve else found


def _in_all(report: QuestionReport, asked: QuestionSet) -> Table:
    cases = [case for case, _ in pair_cases(report, asked)]
    count = amount(sum(len(case.questions) for case in cases), "question")
    threads = amount(len({case.file for case in cases}), "thread")
    rows = []
    for method in methods_of(report):
        if sums := total(report.cases, method):
            hop = Cell(str(sums.hop) if method == OWN else NONE)
            cells = (Cell(str(sums.direct)), hop, Cell(str(sums.no)), Cell(f"{sums.tokens:,.0f}"))
            rows.append((method, cells))
    title = f"{count} on {threads}, answered"
    return Table(title, ("directly", "one hop", "no", "tokens"), tuple(rows))


def _by_kind(report: QuestionReport, asked: QuestionSet) -> Table:
    methods = methods_of(report)
    of_method = {method: by_kind(report, asked, method) for method in methods}
    rows = []
    for kind, counts in of_method[OWN].items() if methods else ():
        cells = [Cell(str(counts.total()))]
        for method in methods:
            verdicts = of_method[method].get(kind)
            hops = f" + {verdicts['hop']}" if verdicts and verdicts["hop"] else ""
            cells.append(Cell(f"{verdicts['direct']}{hops}" if verdicts else NONE))
        rows.append((kind, tuple(cells)))
    return Table("Directly, by kind; + one hop", ("of", *methods), tuple(rows))


def _by_budget(report: QuestionReport) -> Table:
    rows = []
    for method in methods_of(report):
        sums = [total(report.cases, f"{method}@{budget}") for budget in report.curve]
        if any(sums):
            rows.append((method, tuple(Cell(str(s.direct) if s else NONE) for s in sums)))
    return Table("Directly, by budget", tuple(f"{b:,}" for b in report.curve), tuple(rows))


def list_missed(
    report: QuestionReport, asked: QuestionSet
) -> Iterator[tuple[str, list[tuple[Verdict, Question]]]]:
    """By case, the questions that the tool's brief does not answer directly."""
    for case, found in pair_cases(report, asked):
        pairs = zip(found.methods[OWN].verdicts, case.questions, strict=True)
        missed: list[tuple[Verdict, Question]] = [p for p in pairs if p[0] != "direct"]
        if missed:
            yield case.name, missed


def question_document(report: QuestionReport, asked: QuestionSet) -> dict[str, object]:
    """A report as plain data: no time, no path of this machine, no word of a thread."""
    methods: dict[str, object] = {}
    for method in dict.fromkeys(m for case in report.cases for m in case.methods):
        sums = total(report.cases, method)
        kinds = by_kind(report, asked, method)
        if sums:
            methods[method] = {
                "direct": sums.direct, "hop": sums.hop, "no": sums.no, "tokens": round(sums.tokens, 1),
                "kinds": {k: {v: c[v] for v in ("direct", "hop", "no")} for k, c in kinds.items()},
            }  # fmt: skip
    return {
        "set": report.name, "tasuki": report.tasuki, "author": report.author, "budget": report.budget,
        "curve": report.curve, "methods": methods, "cases": report.cases, "left_out": report.left_out,
    }  # fmt: skip
