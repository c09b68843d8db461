"""`tasuki eval compare`: two runs paired by case, and the rule that a release must keep."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tasuki.cli.output import format_json
from tasuki.errors import UsageError
from tasuki_evals.cli.main import eval as group
from tasuki_evals.continuation import benchmark
from tasuki_evals.continuation import report as comparing
from tasuki_evals.continuation.benchmark import ContinuationCase, ContinuationReport
from tasuki_evals.continuation.metric import VERSION

Change = Callable[[int], float]


def report(
    threads: int, edit: Change = lambda n: 0.8, id: Change = lambda n: 0.4, *, kind: str = "cut", metric: int = VERSION
) -> ContinuationReport:  # fmt: skip
    """A report of so many threads with one case each; figures by the thread's number."""
    cases = tuple(
        ContinuationCase(
            name=f"t{n}#9", thread=f"t{n}.jsonl", harness="claude", repository="r", kind=kind,
            methods={
                "tasuki": {"edit": edit(n), "id": id(n), "cmd": None, "tokens": 900.0},
                "last": {"edit": 0.5, "id": 0.3, "tokens": 1900.0},
            },
        )
        for n in range(threads)
    )  # fmt: skip
    return ContinuationReport(metric=metric, tasuki="0.1.0", cases=cases)


def saved(path: Path, of: ContinuationReport) -> Path:
    """A report as `--save` writes it."""
    path.write_text(format_json(benchmark.build_document(of, benchmark.build_rows(of.cases))))
    return path


def outcome(
    folder: Path, a: ContinuationReport, b: ContinuationReport, *options: str
) -> tuple[object, Result]:
    """The exit code and what was printed."""
    paths = saved(folder / "a.json", a), saved(folder / "b.json", b)
    result = CliRunner().invoke(
        group, ["compare", *map(str, paths), *options], standalone_mode=False
    )
    return result.return_value, result


def test_the_same_twice_passes(tmp_path: Path) -> None:
    """Nothing changed: every difference is 0, and the rule is kept."""
    code, done = outcome(tmp_path, report(60), report(60))

    assert code == 0
    assert "tasuki at cuts, id: passes." in done.stdout
    assert "tasuki at cuts, edit: passes." in done.stdout
    assert "+0.00" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("threads", "edit", "id", "code"),
    [
        (60, -0.021, 0.0, 1),
        (60, -0.019, 0.0, 0),
        (60, 0.0, -0.031, 1),
        (60, 0.0, -0.029, 0),
        (60, 0.1, -0.1, 1),
        (59, -0.5, -0.3, 0),
    ],
)
def test_the_rule(threads: int, edit: float, id: float, code: int, tmp_path: Path) -> None:
    """More than 0.02 of `edit` or 0.03 of `id` lost fails, on 60 threads or more."""
    after = report(threads, lambda n: 0.8 + edit, lambda n: 0.4 + id)
    returned, done = outcome(tmp_path, report(threads), after)

    assert returned == code
    assert ("fails" in done.stdout) is bool(code)
    assert ("a person has to judge the difference" in done.stdout) is (threads < 60)


def test_the_lower_bound_decides_not_the_mean(tmp_path: Path) -> None:
    """A release that is as good on average, but not surely so, fails."""
    spread = report(80, lambda n: 0.8 + (0.19 if n % 2 else -0.19))
    code, done = outcome(tmp_path, report(80), spread)
    (one,) = comparing.compare_reports(report(80), spread).compared

    assert abs(one.minus["edit"].mean) < 1e-9
    assert one.minus["edit"].low < -0.02
    assert code == 1
    assert "tasuki at cuts, edit: fails. Perhaps 0.0" in done.stdout


def test_a_column_with_few_threads_is_not_judged(tmp_path: Path) -> None:
    """Threads count by column: cases without a file edited later say nothing of `edit`."""
    cases = tuple(
        c if n < 50 else ContinuationCase(c.name, c.thread, c.harness, c.repository, c.kind, {"tasuki": {"edit": None, "id": 0.4}})
        for n, c in enumerate(report(70).cases)
    )  # fmt: skip
    code, done = outcome(tmp_path, ContinuationReport(cases=cases), report(70, lambda n: 0.1))

    assert code == 0
    assert "tasuki at cuts, edit: 50 threads, too few for the rule" in done.stdout
    assert "tasuki at cuts, id: passes." in done.stdout


def test_only_common_cases_are_paired(tmp_path: Path) -> None:
    """What one run alone has is counted and plays no part."""
    code, done = outcome(
        tmp_path, report(60), report(70, lambda n: 0.8 if n < 60 else 0.0), "--json"
    )
    found = json.loads(done.stdout)
    (one,) = found["compared"]

    assert code == 0
    assert (found["only_a"], found["only_b"], found["judged"], found["failed"]) == (
        0,
        10,
        True,
        False,
    )
    assert (one["cases"], one["threads"], one["judged"]) == (60, 60, ["id", "edit"])
    assert one["minus"]["edit"]["mean"] == one["minus"]["edit"]["low"] == 0.0


def test_both_kinds_and_the_tool_at_half_are_compared() -> None:
    """At compactions both lengths of the tool are looked at."""

    def both(edit: float) -> ContinuationReport:
        cuts, compactions = report(5).cases, report(3, lambda n: edit, kind="compaction").cases
        half = tuple(
            ContinuationCase(f"{c.name}c", c.thread, c.harness, c.repository, c.kind, {**c.methods, "tasuki at half": {"edit": edit}})
            for c in compactions
        )  # fmt: skip
        return ContinuationReport(cases=(*cuts, *half))

    found = comparing.compare_reports(both(0.5), both(0.75)).compared

    assert [(one.kind, one.method, one.threads) for one in found] == [
        ("cut", "tasuki", 5), ("compaction", "tasuki", 3), ("compaction", "tasuki at half", 3),
    ]  # fmt: skip
    assert [one.minus["edit"].mean for one in found] == [0.0, 0.25, 0.25]


def test_another_method_can_be_compared(tmp_path: Path) -> None:
    """With `--method`; one that is not there is an error that lists those that are."""
    _, done = outcome(tmp_path, report(3), report(3), "--method", "last")
    _, wrong = outcome(tmp_path, report(3), report(3), "--method", "lost")

    assert "last at 3 cuts of 3 threads" in done.stdout
    assert str(wrong.exception) == "No method 'lost' in these reports. There are: tasuki, last."


def test_what_does_not_compare_is_an_error(tmp_path: Path) -> None:
    """Other threads, no report, another layout, no file: each says what to do."""
    good = saved(tmp_path / "good.json", report(2))
    layout = tmp_path / "layout.json"
    layout.write_text(good.read_text().replace('"version": 1', '"version": 2'))
    for name, text in (("text", "hello"), ("list", "[]"), ("other", '{"version": 1, "cases": 3}')):
        (tmp_path / name).write_text(text)
    (tmp_path / "deep").write_text("[" * 100_000)

    with pytest.raises(UsageError, match="no case in common"):
        comparing.compare_reports(report(2), report(0))
    for name in ("text", "list", "other", "deep"):
        with pytest.raises(
            UsageError, match=f"{name} is not a report of the continuation benchmark"
        ):
            comparing.read_report(tmp_path / name)
    with pytest.raises(UsageError, match="has the layout 2; this version of tasuki reads 1"):
        comparing.read_report(layout)
    with pytest.raises(UsageError, match="there is no such file"):
        comparing.read_report(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="Is a directory"):
        comparing.read_report(tmp_path)
    assert comparing.read_report(good).cases == report(2).cases


@pytest.mark.parametrize(("a", "b", "older"), [(1, 2, "A"), (2, 1, "B")])
def test_versions_of_the_metric_cannot_be_compared(
    a: int, b: int, older: str, tmp_path: Path
) -> None:
    """Saved reports carry the version; the message says which is the older one and what to do."""
    _, done = outcome(tmp_path, report(2, metric=a), report(2, metric=b))
    told = str(done.exception)

    assert isinstance(done.exception, UsageError)
    assert f"A was counted by version {a} of the metric, B by version {b}." in told
    assert "They cannot be compared: each version counts different things" in told
    assert f"Measure {older} again with a tasuki whose metric has version 2: tasuki eval" in told
    assert done.stdout == ""
