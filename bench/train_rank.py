"""Learns which files a successor opens: writes src/tasuki/draft/rank_weights.json.

    python bench/train_rank.py FOLDER|FILE…        learn from all threads, write weights and manifest
    python bench/train_rank.py --held-out FOLDER   figures with every repository held out in turn

Every message of the user in a thread is one example: the files known before it, and whether they
were opened before the third next message. A thread weighs as much as any other. The model is a
logistic regression with a strong penalty: one number a feature, which can be read and explained.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from tasuki import harness as harnesses  # noqa: E402
from tasuki.draft.facts import derive  # noqa: E402
from tasuki.draft.features import FEATURES, Files, Weights, using  # noqa: E402
from tasuki.draft.files import is_noise  # noqa: E402
from tasuki.draft.rank import relevance_of  # noqa: E402
from tasuki.evals import continuation, cuts, metric  # noqa: E402
from tasuki.evals.places import Source, repository, sources, unpacked  # noqa: E402
from tasuki.evals.statistics import by_thread  # noqa: E402
from tasuki.model import Goal, Thread  # noqa: E402

WEIGHTS = ROOT / "src" / "tasuki" / "draft" / "rank_weights.json"
MANIFEST = ROOT / "bench" / "rank_manifest.json"
LEAST_BEFORE, LEAST_AFTER = 10, 3
"""Tool calls before and after a message, for it to be an example: fewer than in the benchmark."""
UNDER_WAY = 30
"""Entries of one turn from one example to the next."""
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Of all that may be opened, for the frontier of recall and precision."""
PENALTY = 1 / 0.003


@dataclass(frozen=True)
class Examples:
    """Candidates of one thread, one row each."""

    repository: str
    source: Source
    rows: np.ndarray
    opened: np.ndarray


def main() -> None:
    """Learns and writes, or prints what held-out repositories give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    found = all_examples(given.paths)
    if not found:
        sys.exit("No thread in which anything could be learnt from.")
    if given.held_out:
        held_out(found)
        return
    WEIGHTS.write_text(as_json(learn(found)))
    MANIFEST.write_text(json.dumps([row(e) for e in found], indent=1) + "\n")
    print(f"{sum(len(e.rows) for e in found)} candidates of {len(found)} threads: {WEIGHTS.name}")


def all_examples(paths: Sequence[Path]) -> list[Examples]:
    """The examples of all threads in some files and folders."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        return [e for s in sources(paths) if (e := examples(s, folder)) is not None]


def examples(source: Source, folder: Path) -> Examples | None:
    """All candidates at all messages of one thread."""
    path = unpacked(source, folder)
    thread = harnesses.of_file(path).read(path)
    rows: list[list[float]] = []
    opened: list[bool] = []
    for before, goal, after in moments(thread):
        derived = derive(before, None, goal)
        relevance = relevance_of(before, derived, Goal(goal))
        later = metric.used(after, thread.cwd).opened
        files = Files(before, derived.facts, goal, relevance.overlap)
        for file in files.all:
            if not is_noise(file.path):
                rows.append(list(files.features(file).values()))
                opened.append(file.path in later)
    if not rows:
        return None
    return Examples(
        repository(source.repository, thread.cwd),
        source,
        np.array(rows),
        np.array(opened, dtype=float),
    )


def moments(thread: Thread) -> Iterator[tuple[Thread, str, Sequence[cuts.Entry]]]:
    """What stood before, the message, and what came after: at every message of the user, and where
    a long turn is under way, as at a compaction."""
    messages = cuts.messages(thread.entries)
    for number, message in enumerate(messages):
        end = messages[number + 1] if number + 1 < len(messages) else len(thread.entries)
        for at in (message, *range(message + UNDER_WAY, end, UNDER_WAY)):
            after = cuts.future(thread.entries, at if at == message else at - 1)
            before = thread.entries[:at]
            if cuts.calls(before) >= LEAST_BEFORE and cuts.calls(after) >= LEAST_AFTER:
                yield replace(thread, entries=before), thread.entries[message].text, after


def learn(found: Sequence[Examples]) -> Weights:
    """The weights that tell best which files were opened; Newton's method."""
    rows = np.vstack([e.rows for e in found])
    opened = np.concatenate([e.opened for e in found])
    share = np.concatenate([np.full(len(e.rows), 1 / len(e.rows)) for e in found])
    share *= len(rows) / share.sum()
    mean, scale = rows.mean(0), rows.std(0)
    scale[scale == 0] = 1.0
    x = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    penalty = np.full(x.shape[1], PENALTY)
    penalty[-1] = 0.0
    w = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (share * (p - opened)) + penalty * w
        curvature = (x * (share * p * (1 - p))[:, None]).T @ x + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    plain = w[:-1] / scale
    features = {n: round(float(v), 4) for n, v in zip(FEATURES, plain, strict=True)}
    return Weights(features=features, intercept=round(float(w[-1] - (plain * mean).sum()), 4))


def as_json(weights: Weights) -> str:
    """The file that the package reads."""
    return (
        json.dumps({"intercept": weights.intercept, "features": weights.features}, indent=1) + "\n"
    )


def row(of: Examples) -> dict[str, object]:
    """A line of the manifest: which thread was learnt from, without a word of it."""
    return {
        "repository": of.repository,
        "thread": of.source.path.name,
        "sha256": hashlib.sha256(of.source.path.read_bytes()).hexdigest(),
        "candidates": len(of.rows),
        "opened": int(of.opened.sum()),
    }


def left_out_in_turn(found: Sequence[Examples]) -> Iterator[tuple[Weights, list[Examples]]]:
    """Each repository's threads with weights that never saw that repository."""
    for name in sorted({e.repository for e in found}):
        weights = learn([e for e in found if e.repository != name])
        yield weights, [e for e in found if e.repository == name]


def held_out_cases(found: Sequence[Examples]) -> list[continuation.Case]:
    """The benchmark's cases with weights that never saw the repository at hand."""
    cases: list[continuation.Case] = []
    for weights, own in left_out_in_turn(found):
        with using(weights):
            for example in own:
                cases += continuation.measure(example.source, continuation.Options())[0]
    return cases


def frontier(found: Sequence[Examples]) -> list[tuple[str, dict[str, float], float]]:
    """What naming more files gains and costs, held out: a share, the figures, how many files.

    The files alone are scored, without a brief around them: the best ones of the rank, until they
    make up a share of all that may be opened.
    """
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for weights, own in left_out_in_turn(found):
        with using(weights), tempfile.TemporaryDirectory() as scratch:
            for example in own:
                path = unpacked(example.source, Path(scratch))
                thread = harnesses.of_file(path).read(path)
                for cut in cuts.cuts(thread):
                    if cut.kind == "cut":
                        _score_files(cut, example.source.called, values)
    return [_mean_row(share, columns) for share, columns in values.items()]


def _score_files(
    cut: cuts.Cut, name: str, values: dict[str, dict[str, dict[str, list[float]]]]
) -> None:
    derived = derive(cut.predecessor, None, cut.goal)
    ranked = relevance_of(cut.predecessor, derived, Goal(cut.goal)).files.ranked()
    total = sum(worth for worth, _ in ranked)
    wanted = cuts.targets(cut)
    opened = metric.used(cut.future, cut.predecessor.cwd).opened
    for share in SHARES:
        named, told = [], 0.0
        for worth, file in ranked:
            if told > share * total:
                break
            told += worth
            named.append(file.path)
        scored = metric.score(wanted, "\n".join(named), opened).values
        columns = values.setdefault(f"{share:.1f}", {})
        for column in ("edit", "file", "pfile"):
            if (value := scored[column]) is not None:
                columns.setdefault(column, {}).setdefault(name, []).append(value)
        columns.setdefault("named", {}).setdefault(name, []).append(len(named))


def _mean_row(
    share: str, columns: dict[str, dict[str, list[float]]]
) -> tuple[str, dict[str, float], float]:
    means = {c: by_thread(per_thread) for c, per_thread in columns.items()}
    figures = {c: sum(m) / len(m) for c, m in means.items()}
    return share, figures, figures.pop("named")


def held_out(found: Sequence[Examples]) -> None:
    """Print the benchmark's table with weights that never saw the repository at hand."""
    from tasuki.evals.report import table

    print(table(continuation.rows(held_out_cases(found))))


if __name__ == "__main__":
    main()
