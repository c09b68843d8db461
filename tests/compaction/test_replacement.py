"""tasuki's own summary of a session, in the place of the harness's."""

import json
from pathlib import Path
from typing import Any

import pytest
from compactions import RULES, shop_thread

from tasuki.compaction.block import SUMMARY_TITLE
from tasuki.compaction.memory import read_report
from tasuki.compaction.replacement import write_summary
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft.brief import FENCE_CLOSE
from tasuki.draft.text.split import count_tokens
from tasuki.harness import registry as harnesses
from tasuki.session.hook import answer_hook

HARNESSES = ("claude", "codex", "pi", "omp", "gemini", "copilot", "opencode")


@pytest.fixture
def pi_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The afternoon in the shop, in pi; tasuki shall write the summaries."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("TASUKI_COMPACTION", "replace")
    return shop_thread("pi").write(tmp_path / "thread.jsonl")


def ask(thread: Path, event: str) -> dict[str, Any]:
    """What pi's extension gets for an event."""
    payload = {"event": event, "path": str(thread), "thread": "t1", "cwd": str(thread.parent)}
    return dict(json.loads(answer_hook("pi", json.dumps(payload).encode()) or "{}"))


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("budget", [400, 1_000, 4_000])
def test_it_holds_the_rules_and_fits_its_budget(harness: str, budget: int, tmp_path: Path) -> None:
    """Each rule once, the state, and not a token more than asked for."""
    path = shop_thread(harness).write(tmp_path)
    loaded = LoadedSettings(Settings(budget=budget))
    text = write_summary(harnesses.get_harness(harness), path, loaded, replay=True)

    assert count_tokens(text) <= budget
    assert text.startswith(SUMMARY_TITLE)
    assert text.rstrip().endswith(FENCE_CLOSE)
    if budget >= 1_000:
        assert [text.count(rule.rstrip(".")) for rule in RULES] == [1] * len(RULES)
        assert "3f9a2c1" in text
        assert "FAILED" in text


def test_pi_gets_the_summary_and_no_block_behind_it(pi_thread: Path) -> None:
    """One summary, checked as it was made."""
    summary = ask(pi_thread, "compacting")["summary"]
    shop_thread("pi").compaction(summary).write(pi_thread)

    assert summary.startswith(SUMMARY_TITLE)
    assert ask(pi_thread, "compacted") == {}
    report = read_report("pi")
    assert report is not None
    assert (report.replaced, report.problem) == (True, "")


def test_without_a_conversation_the_harness_summarizes(pi_thread: Path) -> None:
    """No summary is no summary: pi makes its own, and the reason is kept."""
    pi_thread.write_text(pi_thread.read_text().splitlines()[0] + "\n")

    assert ask(pi_thread, "compacting") == {}
    report = read_report("pi")
    assert report is not None
    assert "Nothing to hand off" in report.problem


def test_to_restore_pi_is_asked_to_keep_the_rules(
    pi_thread: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the usual setting its own model summarizes, with the rules in the request."""
    monkeypatch.setenv("TASUKI_COMPACTION", "restore")
    answer = ask(pi_thread, "compacting")

    assert list(answer) == ["keep"]
    assert [rule in answer["keep"] for rule in RULES] == [True] * len(RULES)
