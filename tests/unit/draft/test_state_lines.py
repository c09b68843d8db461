"""State lines of real threads against labels that people gave them by reading the threads.

`tests/labels/state-lines.tsv` holds of each line: thread, place in the thread, hash, verdict
(right, wrong or misleading). The threads themselves are no part of the repository:
TASUKI_CORPORA names a folder with them. A line without a label is printed, to be labelled:

    TASUKI_CORPORA=FOLDER python tests/unit/draft/test_state_lines.py > UNLABELLED
"""

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasuki.draft.brief import format_item
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.state import list_state_items
from tasuki.errors import TasukiError
from tasuki.harness import registry as harnesses

LABELS = Path(__file__).parents[2] / "labels" / "state-lines.tsv"
VERDICTS = ("right", "wrong", "misleading")
NEVER_WRONG = ("passed", "merged", "Not committed yet")
"""What a line that says one of these must never be wrong about."""


def read_labels() -> dict[tuple[str, str], str]:
    """The verdict of each labelled line: by thread and hash."""
    rows = (row.split("\t") for row in LABELS.read_text().splitlines() if row)
    return {(thread, hash): verdict for thread, _, hash, verdict in rows}


def hash_line(line: str) -> str:
    """The hash under which the label of a line is kept."""
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def list_lines(folder: Path) -> Iterator[tuple[str, str]]:
    """Each thread of a folder with each of its state lines."""
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        try:
            thread = harnesses.detect_harness(path).read(path)
        except TasukiError:
            continue
        name = "/".join(path.relative_to(folder).parts)
        for item in list_state_items(thread, derive_facts(thread).facts):
            yield name, format_item(item).removeprefix("- ")


def test_every_label_is_one_of_three() -> None:
    """A thread, a place, a hash and a verdict; no line has two."""
    rows = [row.split("\t") for row in LABELS.read_text().splitlines()]

    assert {row[3] for row in rows} <= set(VERDICTS)
    assert len(rows) == len({(row[0], row[2]) for row in rows})
    assert len(rows) >= 400


@pytest.mark.skipif("TASUKI_CORPORA" not in os.environ, reason="needs TASUKI_CORPORA")
def test_state_lines_of_real_threads_are_right() -> None:
    """At least 99 of 100 labelled lines are right, and none of `NEVER_WRONG` is wrong."""
    labels = read_labels()
    lines = list(list_lines(Path(os.environ["TASUKI_CORPORA"])))
    verdicts = [(labels.get((name, hash_line(line)), ""), name, line) for name, line in lines]
    counts = Counter(verdict for verdict, _, _ in verdicts)
    bad = [row for row in verdicts if row[0] in ("wrong", "misleading")]

    assert not [row for row in bad if any(word in row[2] for word in NEVER_WRONG)]
    assert counts["right"] >= 0.99 * (len(verdicts) - counts[""]), bad
    assert counts["right"] >= 0.95 * len(verdicts), "too many lines have no label"


if __name__ == "__main__":
    known = read_labels()
    for name, line in list_lines(Path(os.environ["TASUKI_CORPORA"])):
        if (name, hash_line(line)) not in known:
            sys.stdout.write(f"{name}\t{line}\n")
