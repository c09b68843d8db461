"""Makes every table of workshop/evaluation.md again, and the figures of this release.

    python bench/evaluation.py CORPUS            print them
    python bench/evaluation.py CORPUS --write    into workshop/evaluation.md and bench/continuation/
    python bench/evaluation.py CORPUS --questions SET…    with the table of these question sets; without, it is left

CORPUS is a file or folder of threads; figures alone are written, no word of a thread. Nothing is
learnt, so the same table counts for threads that were seen while building and for others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "workshop"), str(ROOT / "bench")]

import tasuki  # noqa: E402
from tasuki.config.settings import LoadedSettings, Settings  # noqa: E402
from tasuki.draft.rank import relevance  # noqa: E402
from tasuki_evals import question_runs, question_sets  # noqa: E402
from tasuki_evals.cases import (  # noqa: E402
    case_runs,
    scenario,
)
from tasuki_evals.cli import questions as question_tables  # noqa: E402
from tasuki_evals.continuation import benchmark, report  # noqa: E402
from tasuki_evals.runs import build_settings  # noqa: E402

PAGE = ROOT / "workshop" / "evaluation.md"
COMPACTION_PAGE = ROOT / "docs" / "compaction.md"
FIGURES = ROOT / "bench" / "continuation"
QUESTION_BUDGET = 2_000
CURVE = (500, 1_000, 2_000, 4_000, 8_000)
"""Tokens at which question sets are asked, and threads continued."""
CURVE_METHODS, CURVE_COLUMNS = (
    ("tasuki", "random", "last", "index", "index+users+last"),
    ("edit", "file", "cmd", "id"),
)


def main() -> None:
    """Measures, and prints or writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--questions", nargs="*", type=Path, default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = benchmark.run_benchmark(given.corpus)
    blocks: dict[str, Callable[[], str]] = {
        "figures": lambda: _tables(found, "cut") + "\n\n" + _tables(found, "compaction"),
        "differences": lambda: _differences(found, "cut") + "\n\n" + _differences(found, "compaction"),
        "by-budget": lambda: _by_budget(given.corpus),
        "file-terms": _file_terms,
        "cases": _cases,
    }  # fmt: skip
    if given.questions:
        blocks["questions"] = lambda: _questions(given.questions, given.corpus)
    pages = {PAGE: blocks}
    if compactions := [path for path in given.questions if _is_at_compactions(path)]:
        pages[COMPACTION_PAGE] = {"compactions": lambda: _compactions(compactions, given.corpus)}
    for path, made in pages.items():
        page = path.read_text()
        for name, make in made.items():
            text = make()
            if not given.write:
                print(f"{name}\n\n{text}\n")
            page = put_block(page, name, text)
        if given.write:
            path.write_text(page)
    if given.write:
        FIGURES.mkdir(exist_ok=True)
        path = FIGURES / f"{tasuki.__version__}.json"
        document = {
            "version": 1,
            **benchmark.build_document(found, benchmark.build_rows(found.cases)),
        }
        path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def put_block(page: str, name: str, text: str) -> str:
    """A page with another text between the marks of a block."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE.name} has no block {begin.strip()} … {end.strip()}")
    return f"{before}{begin}{text}\n{end}{after}"


def _tables(of: benchmark.ContinuationReport, kind: str) -> str:
    rows = benchmark.build_rows(of.cases)
    return report.format_markdown_table(
        report.build_methods_table(rows, of.cases, kind, every=False), intervals=True
    )


def _differences(of: benchmark.ContinuationReport, kind: str) -> str:
    rows = benchmark.build_rows(of.cases)
    return report.format_markdown_table(
        report.build_differences_table(rows, of.cases, kind), intervals=True
    )


def _by_budget(corpus: Sequence[Path]) -> str:
    """The main columns at cuts, of each method at each budget."""
    budgets = " | ".join(f"{budget:,}" for budget in CURVE)
    lines = [f"| `edit` `file` `cmd` `id` | {budgets} |", f"|---|{'---|' * len(CURVE)}"]
    cells: dict[str, list[str]] = {method: [] for method in CURVE_METHODS}
    for budget in CURVE:
        options = benchmark.ContinuationOptions(budget=budget)
        cases = [c for c in benchmark.run_benchmark(corpus, options).cases if c.kind == "cut"]
        for method, row in cells.items():
            means = [benchmark.compute_mean(cases, method, column) for column in CURVE_COLUMNS]
            row.append(" ".join("–" if mean is None else f"{mean:.2f}" for mean in means))
    return "\n".join([*lines, *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items())])


def _file_terms() -> str:
    lines = ["| term | what it adds |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{n}` | {says} |" for n, says in relevance.TERMS.items())])


def _cases() -> str:
    results = case_runs.run_cases(
        scenario.load_cases(()), build_settings(LoadedSettings(Settings()), case_runs.BUDGET)
    )
    all_of = case_runs.compute_figures(results)
    lines = ["| cases | passed | facts kept | nothing invented |", "|---|---|---|---|"]
    for name, of in (("all", all_of), *case_runs.compute_by_category(results).items()):
        lines.append(f"| {name} | {_share(of.passed)} | {_share(of.facts)} | {_share(of.nothing_invented)} |")  # fmt: skip
    lines += ["", "| handoffs | constraints of the first thread that are in the brief |", "|---|---|"]  # fmt: skip
    for figure in case_runs.compute_chain_figures(results):
        lines.append(f"| {figure.depth} | {_share(figure.survived)} |")
    failed = ", ".join(f"`{r.case.id}`" for r in results if not r.has_passed)
    return "\n".join([*lines, "", f"Not passed: {failed}."])


def _questions(sets: Sequence[Path], corpus: Sequence[Path]) -> str:
    """Each set at the budgets of the curve; compactions at the length of the harness's summary."""
    parts = []
    for path in sets:
        asked = question_sets.load_questions(path)
        summaries = all(case.summary_line is not None for case in asked.threads)
        options = question_runs.QuestionOptions(
            budget=None if summaries else QUESTION_BUDGET, curve=() if summaries else CURVE
        )
        found = question_runs.ask_questions(asked, path.name, corpus, options)
        tables = question_tables.build_question_tables(found, asked)
        parts += [report.format_markdown_table(table, intervals=False) for table in tables]
    return "\n\n".join(parts)


COMPACTION_ROWS = {
    question_runs.NATIVE_METHOD: "the harness's own summary, by a frontier model",
    question_runs.DUMPED_METHOD: "and 800 tokens of the newest messages and outputs",
    question_runs.RESTORED_METHOD: "**and tasuki's block** (`restore`)",
    question_runs.REPLACED_METHOD: "tasuki's own summary of the same length, without a model (`replace`)",
    "last": "the newest messages and outputs of the same length",
}


def _is_at_compactions(path: Path) -> bool:
    threads = question_sets.load_questions(path).threads
    return all(case.summary_line is not None for case in threads)


def _compactions(sets: Sequence[Path], corpus: Sequence[Path]) -> str:
    """What is answered directly from each thing that may stand in the place of a thread."""
    lines = ["| in view after the compaction | answered | tokens |", "|---|---|---|"]
    for path in sets:
        asked = question_sets.load_questions(path)
        found = question_runs.ask_questions(asked, path.name, corpus)
        for method, words in COMPACTION_ROWS.items():
            if total := question_runs.sum_answers(found.cases, method):
                count = f"**{total.direct}**" if words.startswith("**") else total.direct
                lines.append(f"| {words} | {count} | {total.tokens:,.0f} |")
    return "\n".join(lines)


def _share(of: object) -> str:
    count, total, low, high = (getattr(of, n) for n in ("hits", "of", "low", "high"))
    return f"{count}/{total} ({low:.0%}–{high:.0%})" if total else "–"


if __name__ == "__main__":
    main()
