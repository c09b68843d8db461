"""What becomes of recorded answers of an able author: true items dropped, planted errors let through.

    .venv/bin/python bench/recorded_authors.py CORPORA [--verbose]

CORPORA is the folder with the threads that `tests/fixtures/author_answers` names, plain or gzipped. Each
answer goes through the checks and into a brief of 1,000, 2,000 and 4,000 tokens; the request for a repair
is answered with nothing. A file or command whose note alone was dropped counts as `note`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]

import author_answers  # noqa: E402
from author_answers import BUDGETS, Fate  # noqa: E402

KEPT = ("printed", "marked")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path, metavar="CORPORA", help="folder with the threads")
    parser.add_argument("--verbose", action="store_true", help="list what is judged wrongly")
    given = parser.parse_args()
    judged: dict[int, list[Fate]] = {budget: [] for budget in BUDGETS}
    with tempfile.TemporaryDirectory() as folder:
        for one in author_answers.load_answers():
            harness, path = author_answers.cut_thread(one, given.corpora, Path(folder))
            for budget in BUDGETS:
                judged[budget] += author_answers.judge_answer(one, harness, path, budget)
    print(f"{'tokens':>8}{'true':>7}{'dropped':>9}{'marked':>8}{'in brief':>10}"
          f"{'false':>9}{'passed':>8}{'marked':>8}{'dropped':>9}")  # fmt: skip
    for budget, fates in judged.items():
        print_row(budget, fates)
    if given.verbose:
        for fate in judged[BUDGETS[-1]]:
            is_wrong = fate.fate == "printed" if fate.is_false else fate.fate != "printed"
            if is_wrong or fate.lost_note:
                about = "FALSE" if fate.is_false else "true "
                print(
                    f"\n{about} {fate.fate:10} {fate.name}/{fate.section}: {fate.text}\n    {fate.reason}"
                )


def print_row(budget: int, fates: list[Fate]) -> None:
    """Prints one line of the table, and the kinds of what was dropped."""
    true = [f for f in fates if not f.is_false]
    false = [f for f in fates if f.is_false]
    kinds = Counter(f.fate for f in true if f.fate not in (*KEPT, "room"))
    kinds["note"] += sum(f.lost_note for f in true)
    in_brief = sum(f.fate in KEPT for f in true)
    of = Counter("passed" if f.fate == "printed" else f.fate for f in false)
    dropped = len(false) - of["passed"] - of["marked"]
    print(f"{budget:>8}{len(true):>7}{kinds.total():>9}{sum(f.fate == 'marked' for f in true):>8}"
          f"{in_brief / len(true):>10.1%}{len(false):>9}{of['passed']:>8}{of['marked']:>8}{dropped:>9}"
          f"  {', '.join(f'{k} {n}' for k, n in kinds.items() if n)}")  # fmt: skip


if __name__ == "__main__":
    main()
