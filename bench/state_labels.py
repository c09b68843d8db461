"""Judges the lines of *State of the work* on real threads against labels made by reading.

    python bench/state_labels.py CORPUS            print the table, and every wrong line
    python bench/state_labels.py CORPUS --write    into workshop/evaluation.md

CORPUS is the folder of threads that tests/support/state_labels.json names. Figures alone are written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

import state_judging  # noqa: E402
from state_judging import Judgement  # noqa: E402

PAGE = ROOT / "workshop" / "evaluation.md"
BEGIN, END = "<!-- labels -->\n", "<!-- /labels -->\n"


def main() -> None:
    """Judge, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    judgement = state_judging.judge_corpus(given.corpus, state_judging.load_cuts())
    text = f"{render_precision(judgement)}\n\n{render_recall(judgement)}\n"
    if given.write:
        write_block(text)
        return
    print(text)
    for verdict in judgement.verdicts:
        if verdict.result == "wrong":
            print(f"wrong, {verdict.cut}: {verdict.text} ({verdict.reason})")


def render_precision(judgement: Judgement) -> str:
    """The table of right and wrong lines, the kinds without a judged line in one row."""
    counts = state_judging.count_verdicts(judgement.verdicts)
    rows = ["| line | printed | right | wrong | share |", "|---|---|---|---|---|"]
    judged = {kind: count for kind, count in counts.items() if count[1] + count[2]}
    for kind, (lines, right, wrong) in judged.items():
        rows.append(f"| {kind} | {lines} | {right} | {wrong} | {right / (right + wrong):.2f} |")
    others = [kind for kind in counts if kind not in judged]
    if others:
        lines = sum(counts[kind][0] for kind in others)
        rows.append(f"| no label covers: {', '.join(others)} | {lines} | – | – | – |")
    total, right, wrong = (sum(count[n] for count in counts.values()) for n in range(3))
    rows.append(f"| **all** | {total} | {right} | {wrong} | **{right / (right + wrong):.2f}** |")
    return "\n".join(rows)


def render_recall(judgement: Judgement) -> str:
    """The table of what was true and is told."""
    names = {
        "branches": "the branch in use",
        "commits": "commits on it that still exist, named or counted",
        "tests": "the last test run with its result",
    }
    rows = ["| true at the cuts | labelled | told | share |", "|---|---|---|---|"]
    for name, recall in judgement.recall.items():
        rows.append(f"| {names[name]} | {recall.labelled} | {recall.told} | {recall.share:.2f} |")
    return "\n".join(rows)


def write_block(text: str) -> None:
    """Put the tables between their marks in the page."""
    before, found, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{PAGE.name} has no block {BEGIN.strip()} … {END.strip()}")
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
