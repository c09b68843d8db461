"""The continuation benchmark among hostile files, broken processes, and as a command."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from fixture_threads import database, one
from long_threads import long_thread, written
from tree import SUPPORT

from tasuki.errors import ThreadNotFound, UsageError
from tasuki_evals.cli.main import eval as group
from tasuki_evals.continuation import benchmark, cuts
from tasuki_evals.continuation.benchmark import ContinuationReport
from tasuki_evals.runs import run_each
from tasuki_testing.builder import ThreadBuilder


def run(*paths: Path) -> ContinuationReport:
    """The benchmark on some paths."""
    return benchmark.run_benchmark(paths, workers=1)


def command(*arguments: str | Path) -> Result:
    """`tasuki eval continuation …`, its streams apart."""
    return CliRunner().invoke(group, ["continuation", *map(str, arguments)])


# -- hostile folders -------------------------------------------------------------------


def test_what_is_no_thread_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """Empty, binary, cut off, a database, a loop of folders, a pipe: the good thread is measured."""
    good = written(tmp_path, "claude")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "binary.jsonl").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(good.read_bytes())[:200])
    (tmp_path / "not.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "deep.json").write_text("[" * 50_000)
    (tmp_path / "half.jsonl").write_bytes(good.read_bytes()[:2000])
    (tmp_path / os.fsdecode(b"\xff\xfe.jsonl")).write_text("{}")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (tmp_path / ".hidden.jsonl").write_text("x")
    (tmp_path / "opencode.db").symlink_to(database(one("opencode", "run-1.18.sql")).parent)
    report = run(tmp_path)
    told = {one.name: one.reason for one in report.left_out}

    assert {c.thread for c in report.cases} == {good.name}
    assert told.keys() == {
        "empty.jsonl", "binary.jsonl", "cut.jsonl.gz", "not.jsonl.gz", "deep.json", "half.jsonl", "\\udcff\\udcfe.jsonl", "opencode.db",
    }  # fmt: skip
    assert told["empty.jsonl"] == "it is empty"
    assert told["cut.jsonl.gz"] == "the gzip file is cut off"
    assert told["not.jsonl.gz"] == "it is not a gzip file, or it is damaged"
    assert told["binary.jsonl"].startswith("it is not a thread of a known harness")
    assert told["half.jsonl"] == "no message of the user with enough work before and after"
    assert str(tmp_path) not in json.dumps(told)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    """A file without permission has its reason; a folder without permission is passed over."""
    written(tmp_path, "claude")
    (tmp_path / "mine.jsonl").write_text("{}")
    (tmp_path / "mine.jsonl").chmod(0)
    (tmp_path / "closed").mkdir(mode=0)
    report = run(tmp_path)

    assert [one.name for one in report.left_out] == ["mine.jsonl"]
    assert report.cases


def test_a_defect_of_the_tool_costs_one_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised while one case is made, the others have their figures."""
    made = benchmark.runs.pipeline.make_handoff
    goals: list[str] = []

    def failing(harness: object, path: Path, goal: object, *rest: object, **more: object) -> object:
        goals.append(goal.text)  # type: ignore[attr-defined]
        if len(set(goals)) == 1:
            raise RecursionError("too deep")
        return made(harness, path, goal, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(benchmark.runs.pipeline, "make_handoff", failing)
    report = run(written(tmp_path, "claude"))

    assert len(report.cases) == 2
    assert [o.reason for o in report.left_out] == [
        "a bug in tasuki, please report it: RecursionError: too deep"
    ]


def test_paths_that_name_nothing_are_errors(tmp_path: Path) -> None:
    """A path that is not there, one that is no file, and a folder without files are wrong usage."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "none").mkdir()

    with pytest.raises(ThreadNotFound, match="No file or folder"):
        cuts.list_sources([tmp_path / "absent"])
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        cuts.list_sources([tmp_path / "pipe"])
    with pytest.raises(UsageError, match="There is no file in"):
        cuts.list_sources([tmp_path / "none"])


# -- processes -------------------------------------------------------------------------


def dies_at_two(number: int) -> int:
    """Work that ends its process for one item, as the kernel does for want of memory."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 10


def interrupted(number: int) -> int:
    """Work in whose middle Ctrl-C is pressed."""
    os.kill(os.getpid(), signal.SIGINT)
    return number * 10


FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""The test runner has threads of its own."""


@FORKS
def test_ctrl_c_is_answered_by_the_first_process_alone() -> None:
    """It reaches all processes of a terminal; those at work go on until they are ended."""
    assert run_each(interrupted, range(4), 2, on_lost=lambda number: -number) == [0, 10, 20, 30]


@FORKS
def test_a_process_that_dies_takes_only_its_own_item_with_it() -> None:
    """The others are done again by new processes, and the results keep their order."""
    told: list[int] = []
    found = run_each(dies_at_two, range(6), 2, on_lost=lambda number: -number, on_done=told.append)

    assert found == [0, 10, -2, 30, 40, 50]
    assert told[-1] == 6


def test_ctrl_c_does_not_wait_for_what_is_under_way(tmp_path: Path) -> None:
    """Processes at work, and one without, end with the first one, which alone speaks of it."""
    program = (
        f"import pathlib, sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
        "from long_threads import sleeping\n"
        "from tasuki_evals.runs import run_each\n"
        f"paths = [pathlib.Path({str(tmp_path)!r}, name) for name in 'ab']\n"
        "try: run_each(sleeping, paths, 3, on_lost=str)\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    running = subprocess.Popen(
        (sys.executable, "-c", program), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=60)

        assert (running.returncode, err) == (130, "")
        with pytest.raises(ProcessLookupError):
            os.killpg(running.pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def test_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    """No process and no copy of a thread stays behind, and the exit code is 130."""
    for seed in range(12):
        long_thread("claude", seed + 1, turns=60).write(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    running = subprocess.Popen(
        (sys.executable, "-m", "tasuki", "eval", "continuation", tmp_path, "--workers", "2"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list(scratch.glob("*/*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)

    assert (running.returncode, out) == (130, "")
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


# -- the command -----------------------------------------------------------------------


def test_the_command_prints_tables_within_120_columns(tmp_path: Path) -> None:
    """Figures, differences, repositories, and what was left out, grouped and counted."""
    for seed, harness in enumerate(("claude", "codex", "pi"), 1):
        written(tmp_path, harness, seed, (5,))
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").touch()
    done = command(tmp_path, "--intervals", "--workers", "1")

    assert done.stderr == ""
    for part in (
        "At 6 cuts of 3 threads", "At 3 compactions of 3 threads", "tasuki minus the others at",
        "tasuki at half minus the others", "– native summary", "tasuki by repository, at cuts",
        "Left out: 3", "    3  it is empty", "a.jsonl, b.jsonl, and 1 more",
    ):  # fmt: skip
        assert part in done.stdout, done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_markdown_has_the_same_tables(tmp_path: Path) -> None:
    """With `--markdown` each table can stand in the docs."""
    done = command(written(tmp_path, "pi"), "--markdown", "--workers", "1")
    tables = [p for p in done.stdout.split("\n\n") if p.startswith("|")]

    assert len(tables) == 3
    assert all(len({line.count("|") for line in t.splitlines()}) == 1 for t in tables)


def test_json_is_the_report_with_its_rows(tmp_path: Path) -> None:
    """`--save` writes the same that `--json` prints, without a word of the thread."""
    path = written(tmp_path, "claude")
    saved = tmp_path / "report.json"
    done = command(path, "--json", "--save", saved, "--workers", "1", "--budget", "900")
    report = json.loads(done.stdout)

    assert saved.read_text() == done.stdout
    assert (report["version"], report["metric"], report["budget"]) == (1, 2, 900)
    assert {r["method"] for r in report["rows"]} >= {"tasuki", "whole", "empty", "index+users+last"}
    assert all((c["methods"]["tasuki"]["tokens"] or 0) <= 900 for c in report["cases"])
    assert "shared.py" not in done.stdout
    assert "Turn" not in done.stdout


def test_nothing_measured_is_a_failure(tmp_path: Path) -> None:
    """A thread that is too short gives no figures, and the command says so."""
    path = ThreadBuilder("claude").user("Hello").assistant("Hi").write(tmp_path)
    with click.Context(group):
        code = group.main(["continuation", str(path)], standalone_mode=False)
    done = command(path)

    assert code == 1
    assert (
        "Nothing was measured. A case needs a message of the user with 20 tool calls" in done.stderr
    )
    assert "Left out: 1" in done.stdout


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    """Minutes of measuring are not lost to a folder that is not there."""
    done = command(written(tmp_path, "claude"), "--save", tmp_path / "no" / "x.json")

    assert isinstance(done.exception, UsageError)
    assert "there is no folder" in str(done.exception)
