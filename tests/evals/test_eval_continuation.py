"""The continuation benchmark: its gates, its cuts, and what it does with threads of every kind."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from fixture_threads import HARNESSES, adapter, samples
from long_threads import long_thread, written
from msgspec.structs import replace
from selection import by_default

from tasuki.harness import registry as harnesses
from tasuki_evals import statistics
from tasuki_evals.cli.main import eval as group
from tasuki_evals.continuation import baselines, benchmark, cuts
from tasuki_evals.continuation.benchmark import (
    ContinuationCase,
    ContinuationOptions,
    ContinuationReport,
)

RECALLS = ("edit", "file", "cmd", "id")
NO_SUMMARY = {
    "gemini-json": "the older documents hold no summary of what was compacted",
    "aider": "a new chat has no summary of the one before",
}
"""Formats in which nothing stands in place of what was compacted."""
FILES = [h for h in HARNESSES if h != "opencode"]
"""Formats whose threads are files."""


def run(
    *paths: Path, curve: tuple[int, ...] = (), budget: int = 2000, workers: int = 1
) -> ContinuationReport:
    """The benchmark on some paths."""
    return benchmark.run_benchmark(
        paths, ContinuationOptions(curve=curve, budget=budget), workers=workers
    )


def cases_of(report: ContinuationReport, kind: str = "cut") -> list[ContinuationCase]:
    """The cases of one kind."""
    return [c for c in report.cases if c.kind == kind]


# -- the gates -------------------------------------------------------------------------


@pytest.mark.parametrize("harness", by_default(FILES, "claude", "codex"))
def test_the_whole_thread_holds_everything_and_the_empty_handoff_nothing(
    harness: str, tmp_path: Path
) -> None:
    """In every case of every format all recalls are 1.00 (`cmd` 0.98), and 0 of the empty handoff."""
    report = run(written(tmp_path, harness, compact=(5,)))
    rows = benchmark.build_rows(report.cases)

    assert cases_of(report)
    assert bool(cases_of(report, "compaction")) is (harness not in NO_SUMMARY)
    for case in report.cases:
        held = {c: case.methods["whole"][c] for c in RECALLS}
        assert {
            c: v for c, v in held.items() if v is not None and v < (0.98 if c == "cmd" else 1)
        } == {}
        assert held["id"] is not None
        assert {v for v in case.methods["empty"].values() if v is not None} == {0}
    assert benchmark.find_broken_gates(rows) == []


def test_targets_are_there_to_be_held(tmp_path: Path) -> None:
    """The made-up threads have every recall, so that the gates say something."""
    (first, *_) = run(written(tmp_path, "claude")).cases

    assert all(first.methods["whole"][c] == 1 for c in RECALLS)
    assert 0 < (first.methods["tasuki"]["id"] or 0) < 1


@pytest.mark.parametrize("harness", FILES)
def test_captured_threads_pass_the_gates_or_say_why_not(
    harness: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real threads are short: with one call before and after, what is cut passes both gates too."""
    monkeypatch.setattr(cuts, "CALLS_BEFORE", 1)
    monkeypatch.setattr(cuts, "CALLS_AFTER", 1)
    report = run(*samples(harness))
    measured = {c.thread for c in report.cases}
    told = {one.name.partition("#")[0] for one in report.left_out}

    for case in report.cases:
        for column in RECALLS:
            assert case.methods["whole"][column] in (None, 1.0), (case.name, column)
            assert case.methods["empty"][column] in (None, 0.0), (case.name, column)
    assert len(measured) + len(told) >= len({p.name for p in samples(harness)})


def test_a_broken_gate_is_told_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the whole thread does not hold everything, the figures are not to be believed."""
    methods = {
        **baselines.BASELINES,
        "whole": baselines.write_nothing,
        "empty": baselines.write_whole,
    }
    monkeypatch.setattr(benchmark, "BASELINES", methods)
    path = str(written(tmp_path, "pi"))
    done = CliRunner().invoke(
        group, ["continuation", path, "--workers", "1"], standalone_mode=False
    )

    assert done.return_value == 1
    assert (
        "Do not believe these figures: at cuts the whole thread holds 0.0000 of `id`" in done.stderr
    )
    assert "at cuts the empty handoff holds 1.0000 of `id`" in done.stderr


# -- cutting ---------------------------------------------------------------------------


@pytest.mark.parametrize("harness", FILES)
def test_truncated_copies_are_read_as_the_beginning(harness: str, tmp_path: Path) -> None:
    """In every format that lies in a file, the part before a cut is a thread of its own."""
    path = written(tmp_path, harness, compact=(5,))
    adapter_ = harnesses.detect_harness(path)
    thread = adapter_.read(path)
    found = cuts.find_cuts(thread)
    folder = tmp_path / "copies"
    folder.mkdir()

    assert len(found) >= 2
    for cut in found:
        copy = cuts.write_predecessor_copy(adapter_, cut, folder)
        read = adapter_.read(copy)
        assert copy.name == path.name
        assert [(e.ref, e.kind, e.text) for e in read.entries] == [
            (e.ref, e.kind, e.text) for e in thread.entries[: len(read.entries)]
        ]
        assert thread.entries[len(read.entries)] == cut.at


def test_a_thread_in_a_database_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """opencode's database cannot be cut, but what `opencode export` prints can."""
    path = long_thread("opencode").write(tmp_path)
    thread = adapter("opencode").read(path)
    (first, *_) = cuts.find_cuts(thread)

    with pytest.raises(ValueError, match="it is in a database; export it to a file first"):
        cuts.write_predecessor_copy(adapter("opencode"), first, tmp_path)
    report = run(path.parent)
    assert report.cases == ()
    assert {one.reason for one in report.left_out} == {
        "it is in a database; export it to a file first"
    }


def test_a_copy_that_reads_differently_is_left_out(tmp_path: Path) -> None:
    """What is written into the middle of a file later belongs to no beginning."""
    path = written(tmp_path, "codex")
    adapter_ = harnesses.detect_harness(path)
    (first, *_) = cuts.find_cuts(adapter_.read(path))
    late = replace(first, at=replace(first.at, offset=first.at.offset // 2))
    elsewhere = replace(first, at=replace(first.at, source=-1))
    nothing = replace(first, at=replace(first.at, offset=3))

    for cut, reason in (
        (late, "the copy that ends there differs from the thread"),
        (elsewhere, "it is in the file of the thread that this one was forked from"),
        (nothing, "the document is not JSON"),
    ):
        with pytest.raises(ValueError, match=reason):
            cuts.write_predecessor_copy(adapter_, cut, tmp_path / "..")


def test_there_are_at_most_three_cuts_evenly_spread(tmp_path: Path) -> None:
    """Of many messages the first and the last good one are cut at, and one between."""
    thread = adapter("pi").read(long_thread("pi", turns=20).write(tmp_path))
    found = cuts.find_cuts(thread)
    calls = [cuts.count_calls(c.predecessor.entries) for c in found]

    assert len(found) == 3
    assert calls == sorted(calls)
    assert calls[0] >= cuts.CALLS_BEFORE
    assert all(cuts.count_calls(c.future) >= cuts.CALLS_AFTER for c in found)
    assert abs((calls[1] - calls[0]) - (calls[2] - calls[1])) <= 7
    assert len(cuts.find_messages(found[0].future)) == cuts.FUTURE_MESSAGES - 1


def test_no_cut_lies_after_a_compaction(tmp_path: Path) -> None:
    """After one the agent knew the thread from the summary; compactions are cases of their own."""
    thread = adapter("claude").read(long_thread("claude", compact=(4, 6)).write(tmp_path))
    first = next(e for e in thread.entries if e.kind == "compaction")
    found = cuts.find_cuts(thread)

    assert {c.kind for c in found} == {"cut", "compaction"}
    assert all(c.at.ref < first.ref for c in found if c.kind == "cut")


def test_a_compaction_gives_every_method_the_length_of_the_summary(tmp_path: Path) -> None:
    """The goal is the last message before it, the tool also gets half, the summary is a baseline."""
    path = written(tmp_path, "claude", compact=(5,))
    (cut,) = (c for c in cuts.find_cuts(adapter("claude").read(path)) if c.kind == "compaction")
    (case,) = cases_of(run(path), "compaction")
    length = (len(cut.summary) + 3) // 4

    assert cut.goal.startswith("Turn 4: ")
    assert case.methods["native summary"]["tokens"] == length
    assert all((case.methods[m]["tokens"] or 0) <= length for m in ("random", "last", "index"))
    assert (case.methods["tasuki at half"]["tokens"] or 0) <= (
        case.methods["tasuki"]["tokens"] or 0
    )


def test_a_mark_without_a_summary_is_no_compaction_case(tmp_path: Path) -> None:
    """Where nothing was put in place of the thread there is nothing to compare with."""
    builder = long_thread("claude", turns=4).compaction("Compacted.")
    builder.user("go on").shell("pytest -q tests/app", "ok")
    found = cuts.find_cuts(adapter("claude").read(builder.write(tmp_path)))

    assert [c.kind for c in found if c.kind == "compaction"] == []


# -- what is measured ------------------------------------------------------------------


@pytest.mark.long
def test_figures_are_the_same_twice_and_with_two_workers(tmp_path: Path) -> None:
    """Neither the run, nor the processes at work, nor where the files lie change a figure."""
    here, there = tmp_path / "a", tmp_path / "somewhere" / "else"
    for folder in (here, there):
        folder.mkdir(parents=True)
        for seed, harness in enumerate(("claude", "codex", "specstory", "aider", "pi"), 1):
            path = written(folder, harness, seed)
            (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    first, *others = (
        json.loads(
            subprocess.run(
                (sys.executable, "-m", "tasuki", "eval", "continuation", folder, "--json", "--workers", n),
                capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"},
            ).stdout
        )
        for folder, n in ((here, "1"), (here, "2"), (there, "2"))
    )  # fmt: skip

    assert len({c["thread"] for c in first["cases"]}) == 5
    assert all(other == first for other in others)
    assert str(tmp_path) not in json.dumps(first)


def test_threads_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Copilot calls every file `events.jsonl`; each is a thread of its own in the statistics."""
    for seed, name in ((1, "one"), (2, "two")):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "copilot", seed)
    report = run(tmp_path)
    (row,) = (
        r for r in benchmark.build_rows(report.cases) if r.kind == "cut" and r.method == "tasuki"
    )

    assert {c.thread for c in report.cases} == {"one/events.jsonl", "two/events.jsonl"}
    assert row.values["tokens"].threads == 2


def test_the_same_thread_counts_once(tmp_path: Path) -> None:
    """A file that is named twice is measured once; a copy of it is left out with the reason."""
    path = written(tmp_path, "claude")
    alone = run(path)
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    shutil.copy(path, tmp_path / "copy.jsonl")
    report = run(tmp_path, path)

    assert run(path, link, path.parent / ".." / path.parent.name / path.name) == alone
    assert len(report.cases) == len(report.left_out) == len(alone.cases)
    assert {o.reason for o in report.left_out} == {
        "the same place of the same thread is in another file"
    }


def test_a_curve_measures_further_budgets(tmp_path: Path) -> None:
    """Each budget gives figures of their own, and the table leaves them out."""
    report = run(written(tmp_path, "claude"), curve=(300, 600))
    case = report.cases[0]

    assert (
        (case.methods["last@300"]["tokens"] or 0) <= 300 < (case.methods["last@600"]["tokens"] or 0)
    )
    assert {"tasuki@300", "random@600", "index+users+last@300"} <= case.methods.keys()
    assert not any("@" in r.method for r in benchmark.build_rows(report.cases))


def test_the_manifest_names_the_repository(tmp_path: Path) -> None:
    """A line that is broken is passed over; without one, the working directory tells."""
    (tmp_path / "a").mkdir()
    path = written(tmp_path / "a", "claude")
    written(tmp_path, "pi", seed=1)
    rows = (
        json.dumps({"file": f"a/{path.name}", "repo": "acme/proj"}),
        "{broken",
        '"no object"',
        "\ud800",
    )
    (tmp_path / "MANIFEST.jsonl").write_text("\n".join(rows), errors="surrogatepass")
    report = run(tmp_path)

    assert {c.harness: c.repository for c in report.cases} == {"claude": "acme/proj", "pi": "proj"}


def test_a_zipped_thread_is_measured_as_the_file_is(tmp_path: Path) -> None:
    """`.gz` changes the name in the report, and nothing else."""
    path = written(tmp_path, "codex")
    zipped = tmp_path / "z" / f"{path.name}.gz"
    zipped.parent.mkdir()
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    plain, packed = run(path), run(zipped)

    assert plain.cases
    assert [replace(c, thread="") for c in plain.cases] == [
        replace(c, thread="") for c in packed.cases
    ]


# -- statistics ------------------------------------------------------------------------


def test_the_thread_is_the_unit() -> None:
    """A thread with many cases weighs as much as one with a single case."""
    cases = [
        ContinuationCase(
            f"{thread}#{n}",
            thread,
            "claude",
            "r",
            "cut",
            {"a": {"edit": value}, "b": {"edit": 0.0}},
        )
        for thread, values in {"x": (1.0, 1.0, 1.0), "y": (0.0,)}.items()
        for n, value in enumerate(values)
    ]
    minus = benchmark.estimate_difference(cases, "a", "b", "edit")

    assert benchmark.compute_mean(cases, "a", "edit") == 0.5
    assert minus is not None
    assert (minus.mean, minus.threads) == (0.5, 2)
    assert benchmark.compute_mean(cases, "a", "cmd") is None


def test_the_interval_is_the_bootstrap_of_the_mean() -> None:
    """Same draws at every run; all equal gives no width, many threads a narrower one."""
    few = statistics.estimate_mean([0.0, 1.0] * 5)
    many = statistics.estimate_mean([0.0, 1.0] * 50)
    same = statistics.estimate_mean([0.25] * 7)

    assert few == statistics.estimate_mean([0.0, 1.0] * 5)
    assert few is not None
    assert many is not None
    assert few.low < many.low < 0.5 < many.high < few.high
    assert (few.low, few.high) == pytest.approx((0.2, 0.8))
    assert same is not None
    assert (same.low, same.high) == (0.25, 0.25)
    assert statistics.estimate_mean([]) is None
