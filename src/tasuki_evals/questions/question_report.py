"""The figures of a question set as tables: overall, by kind of question, by budget."""

from collections.abc import Iterator

from tasuki_evals.continuation.benchmark import OWN_METHOD
from tasuki_evals.continuation.report import NO_FIGURE, FigureTable, TableCell, format_amount
from tasuki_evals.questions.question_runs import (
    QuestionReport,
    count_by_kind,
    list_methods,
    pair_cases,
    sum_answers,
)
from tasuki_evals.questions.question_sets import QuestionSet, QuestionVerdict, SetQuestion


def build_question_tables(report: QuestionReport, question_set: QuestionSet) -> list[FigureTable]:
    """Return all tables of a report; the one by budget if more than one was measured."""
    found = [_build_total_table(report, question_set), _build_kind_table(report, question_set)]
    return [*found, _build_budget_table(report)] if report.curve else found


def _build_total_table(report: QuestionReport, question_set: QuestionSet) -> FigureTable:
    cases = [case for case, _ in pair_cases(report, question_set)]
    count = format_amount(sum(len(case.questions) for case in cases), "question")
    threads = format_amount(len({case.file for case in cases}), "thread")
    rows = []
    for method in list_methods(report):
        if sums := sum_answers(report.cases, method):
            hop = TableCell(str(sums.hop) if method == OWN_METHOD else NO_FIGURE)
            cells = (
                TableCell(str(sums.direct)),
                hop,
                TableCell(str(sums.no)),
                TableCell(f"{sums.tokens:,.0f}"),
            )
            rows.append((method, cells))
    title = f"{count} on {threads}, answered"
    return FigureTable(title, ("directly", "one hop", "no", "tokens"), tuple(rows))


def _build_kind_table(report: QuestionReport, question_set: QuestionSet) -> FigureTable:
    methods = list_methods(report)
    of_method = {method: count_by_kind(report, question_set, method) for method in methods}
    rows = []
    for kind, counts in of_method[OWN_METHOD].items() if methods else ():
        cells = [TableCell(str(counts.total()))]
        for method in methods:
            verdicts = of_method[method].get(kind)
            hops = f" + {verdicts['hop']}" if verdicts and verdicts["hop"] else ""
            cells.append(TableCell(f"{verdicts['direct']}{hops}" if verdicts else NO_FIGURE))
        rows.append((kind, tuple(cells)))
    return FigureTable("Directly, by kind; + one hop", ("of", *methods), tuple(rows))


def _build_budget_table(report: QuestionReport) -> FigureTable:
    rows = []
    for method in list_methods(report):
        sums = [sum_answers(report.cases, f"{method}@{budget}") for budget in report.curve]
        if any(sums):
            rows.append((method, tuple(TableCell(str(s.direct) if s else NO_FIGURE) for s in sums)))
    return FigureTable("Directly, by budget", tuple(f"{b:,}" for b in report.curve), tuple(rows))


def list_missed(
    report: QuestionReport, question_set: QuestionSet
) -> Iterator[tuple[str, list[tuple[QuestionVerdict, SetQuestion]]]]:
    """Yield by case the questions that the tool's brief does not answer directly."""
    for case, found in pair_cases(report, question_set):
        pairs = zip(found.methods[OWN_METHOD].verdicts, case.questions, strict=True)
        missed: list[tuple[QuestionVerdict, SetQuestion]] = [p for p in pairs if p[0] != "direct"]
        if missed:
            yield case.name, missed


def build_question_document(report: QuestionReport, question_set: QuestionSet) -> dict[str, object]:
    """Return a report as plain data.

    It contains no time, no path of this machine, no word of a thread.
    """
    methods: dict[str, object] = {}
    for method in dict.fromkeys(m for case in report.cases for m in case.methods):
        sums = sum_answers(report.cases, method)
        kinds = count_by_kind(report, question_set, method)
        if sums:
            methods[method] = {
                "direct": sums.direct, "hop": sums.hop, "no": sums.no, "tokens": round(sums.tokens, 1),
                "kinds": {k: {v: c[v] for v in ("direct", "hop", "no")} for k, c in kinds.items()},
            }  # fmt: skip
    return {
        "set": report.name, "tasuki": report.tasuki, "author": report.author, "budget": report.budget,
        "curve": report.curve, "methods": methods, "cases": report.cases, "left_out": report.left_out,
    }  # fmt: skip
