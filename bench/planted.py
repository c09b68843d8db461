"""How many of the facts planted in five made-up threads a brief of 6,000 characters keeps, without a model.

    python bench/planted.py [--json] [--held-out] [--variants N] [--briefs FOLDER]

Beside tasuki stand two trivial briefs of the same size: the last messages that fit, and the first
message of the user with the last ones that fit. `--variants` repeats it with other talk between
the same facts, which shows how much of a figure is chance. `--briefs` keeps threads and briefs for
reading.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

from planted import judging  # noqa: E402
from planted.judging import Verdict  # noqa: E402
from planted.script import Fact, Script  # noqa: E402

Writer = Callable[[Script, Path], str]
WRITERS: dict[str, Writer] = {
    "tasuki": judging.of_tasuki,
    "last messages": lambda script, folder: judging.of_last_messages(script),
    "first and last of the user": lambda script, folder: judging.of_first_and_last(script),
}


def main() -> None:
    """Prints the table, or one JSON document."""
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.briefs or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plain = {name: verdicts(write, folder, False) for name, write in WRITERS.items()}
        dense = {name: verdicts(write, folder, True) for name, write in WRITERS.items()}
        others = [other_talk(folder, n + 1) for n in range(given.variants)]
    if given.json:
        print(json.dumps(document(plain, dense, others), ensure_ascii=False, indent=2))
        return
    print_table(plain, dense)
    for n, other in enumerate(others, 1):
        print(f"with other talk {n}: {other}")
    print_kinds(plain["tasuki"])
    print_lost(plain["tasuki"])
    if given.held_out:
        print_held_out(dense["tasuki"])


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--held-out", action="store_true", help="print the held-out facts kept of each kind"
    )
    parser.add_argument("--variants", type=int, default=0, metavar="N", help="also try N others")
    parser.add_argument("--briefs", metavar="FOLDER", help="keep threads and briefs here")
    return parser.parse_args()


def verdicts(write: Writer, folder: Path, with_held_out: bool) -> list[Verdict]:
    """One way to write briefs, judged on the five threads."""
    found = []
    for script in judging.scripts(with_held_out):
        brief = write(script, folder)
        if write is judging.of_tasuki:
            suffix = "-held-out" if with_held_out else ""
            (folder / f"{script.name}{suffix}.md").write_text(brief, encoding="utf-8")
        found.append(judging.verdict(script, brief))
    return found


def other_talk(folder: Path, variant: int) -> dict[str, int]:
    """tasuki's totals on the same facts among other talk."""
    rows, dense = (
        [
            judging.verdict(s, judging.of_tasuki(s, folder))
            for s in judging.scripts(with_held_out, variant)
        ]
        for with_held_out in (False, True)
    )
    return totals(rows, dense)


def print_table(plain: dict[str, list[Verdict]], dense: dict[str, list[Verdict]]) -> None:
    """Every thread and the totals, for each way to write a brief."""
    for name, rows in plain.items():
        print(f"{name:28}{'entries':>8}{'kept':>8}{'leaked':>8}{'characters':>12}{'held out':>10}")
        for row, more in zip(rows, dense[name], strict=True):
            kept, held_out = f"{len(row.kept)}/10", f"{len(more.held_out_kept)}/5"
            leaked = len(row.leaked)
            print(
                f"  {row.name:26}{row.entries:>8}{kept:>8}{leaked:>8}{row.size:>12}{held_out:>10}"
            )
        total = totals(rows, dense[name])
        print(
            f"  {'total':26}{'':8}{total['kept']:>5}/50{total['leaked']:>8}{'':12}{total['held_out']:>7}/25\n"
        )


def totals(rows: list[Verdict], dense: list[Verdict]) -> dict[str, int]:
    """Sums over the threads; `kept_dense` is of the threads that hold the held-out facts too."""
    return {
        "kept": sum(len(r.kept) for r in rows),
        "leaked": sum(len(r.leaked) for r in rows),
        "kept_dense": sum(len(r.kept) for r in dense),
        "held_out": sum(len(r.held_out_kept) for r in dense),
    }


def of_kind(kept: list[Fact], lost: list[Fact]) -> dict[str, tuple[int, int]]:
    """For each kind how many were kept, of how many."""
    good, all = Counter(f.kind for f in kept), Counter(f.kind for f in kept + lost)
    return {kind: (good[kind], count) for kind, count in sorted(all.items())}


def kinds(rows: list[Verdict], held_out: bool = False) -> dict[str, tuple[int, int]]:
    """The counts of the kinds over all threads."""
    if held_out:
        return of_kind(
            [f for r in rows for f in r.held_out_kept], [f for r in rows for f in r.held_out_lost]
        )
    return of_kind([f for r in rows for f in r.kept], [f for r in rows for f in r.lost])


def print_kinds(rows: list[Verdict]) -> None:
    """What kinds of facts tasuki keeps, and by whom they were said."""
    print("kept of each kind")
    for kind, (kept, count) in kinds(rows).items():
        print(f"  {kind:18}{kept:>3}/{count}")
    for role in ("user", "agent", "tool"):
        kept = sum(f.role == role for r in rows for f in r.kept)
        count = kept + sum(f.role == role for r in rows for f in r.lost)
        print(f"  said by {role:10}{kept:>3}/{count}")


def print_lost(rows: list[Verdict]) -> None:
    """The sentences that did not make it, and the lines that should not stand there."""
    print("\nlost")
    for row in rows:
        for fact in row.lost:
            print(f"  {row.name}, {fact.kind}, {fact.role}: {fact.text}")
    print("\nleaked")
    for row in rows:
        for decoy, line in row.leaked:
            print(f"  {row.name}, {decoy.kind}: {line}")


def print_held_out(rows: list[Verdict]) -> None:
    """What kinds of held-out facts are kept; their texts stay unseen, so that none is tuned to."""
    print("\nheld out, kept of each kind")
    for kind, (kept, count) in kinds(rows, held_out=True).items():
        print(f"  {kind:18}{kept:>3}/{count}")


def document(
    plain: dict[str, list[Verdict]],
    dense: dict[str, list[Verdict]],
    others: list[dict[str, int]],
) -> dict[str, Any]:
    """The figures as data; of the held-out facts only counts."""
    return {
        "version": 1,
        "characters": judging.CHARACTERS,
        "variants": others,
        "writers": {
            name: {
                **totals(rows, dense[name]),
                "kinds": kinds(rows),
                "held_out_kinds": kinds(dense[name], held_out=True),
                "threads": [as_data(row) for row in rows],
            }
            for name, rows in plain.items()
        },
    }


def as_data(row: Verdict) -> dict[str, Any]:
    """One thread's verdict."""
    return {
        "name": row.name,
        "entries": row.entries,
        "characters": row.size,
        "kept": [f.text for f in row.kept],
        "lost": [{"kind": f.kind, "role": f.role, "text": f.text} for f in row.lost],
        "leaked": [{"kind": d.kind, "line": line} for d, line in row.leaked],
    }


if __name__ == "__main__":
    main()
