"""What was read of a thread is forgotten with its kept copy, or alone."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tasuki.cli.main import cli
from tasuki.harness.reading.cache import get_cache_folder
from tasuki_testing import story

GOAL = "cover the parser of the upload client with tests"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A thread, and a data folder of its own."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    return str(story("claude").write(tmp_path))


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words)
    return result.exit_code, result.output if result.exception is None else f"{result.exception}"


def test_a_reading_is_forgotten_by_its_thread(path: str) -> None:
    """`--forget PATH` deletes it; without a copy and a reading there is nothing to delete."""
    assert run("handoff", "--print", "--from", path, GOAL)[0] == 0
    assert len(list(get_cache_folder().iterdir())) == 1

    assert "What was read of 1 thread is deleted" in run("threads", "--forget", path)[1]
    assert "threads --kept" in run("threads", "--forget", path)[1]


def test_no_reading_is_kept_where_that_is_switched_off(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cache = false`, here by its variable: the brief is the same, and nothing is written."""
    shown = []
    for value in ("true", "true", "false"):
        monkeypatch.setenv("TASUKI_CACHE", value)
        shown.append(json.loads(run("handoff", "--json", "--from", path, GOAL)[1])["brief"])
    assert len({text.partition("tasuki read")[0] for text in shown}) == 1
    assert run("threads", "--forget", "all", "--json")[0] == 0
    run("handoff", "--print", "--from", path, GOAL)
    assert not list(get_cache_folder().iterdir())
