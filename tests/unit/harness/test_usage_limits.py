"""Usage limits as the real programs record them, and the times at which they reset."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tree import FIXTURES

from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.reading.usage_limits import describe_reset, find_limit
from tasuki.model import Thread, TurnFailure

BERLIN = ZoneInfo("Europe/Berlin")
AT = datetime(2026, 11, 25, 14, 10, 30, tzinfo=BERLIN)
"""When the sentences of these tests were written."""


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is in Berlin, some hours after the captured threads were written."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: 1795660000.0)
    yield
    monkeypatch.undo()
    time.tzset()


def read(name: str) -> Thread:
    """A thread that a real program recorded: `HARNESS-CASE`."""
    harness = harnesses.get_harness(name.partition("-")[0])
    return harness.read(FIXTURES / "limits" / f"{name}.jsonl")


def resets(text: str, at: datetime = AT) -> datetime | None:
    """When the limit of a sentence resets, in Berlin."""
    limit = find_limit(text, at.isoformat())
    assert limit, text
    return datetime.fromtimestamp(limit.resets_at, BERLIN) if limit.resets_at else None


def berlin(day: int, hour: int, minute: int = 0, month: int = 11, year: int = 2026) -> datetime:
    """A time in Berlin."""
    return datetime(year, month, day, hour, minute, tzinfo=BERLIN)


# -- what the programs record ----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "resets_at"),
    [
        ("claude-five", "You've hit your 5-hour limit · resets 2:18am (Europe/Berlin)", 1795655923.0),
        ("claude-week", "You've hit your weekly limit · resets Nov 29, 2:19am (Europe/Berlin)", 1795915171.0),
        ("claude-noreset", "You've hit your 5-hour limit", None),
        ("claude-credit", "Credit balance is too low", None),
        ("codex-usage", "You’ve hit your usage limit.", 1795655594.0),
        ("codex-usage-plain", "You’ve hit your usage limit. Try again later.", None),
        ("codex-not-included", "To use Codex with your ChatGPT plan, upgrade to Plus", None),
        ("codex-insufficient", "Quota exceeded. Check your plan and billing details.", None),
        ("copilot-usage-far", "The usage limit has been reached", None),
        ("pi-usage", "The usage limit has been reached", 1795655704.0),
        ("pi-usage-far", "The usage limit has been reached", 1795914921.0),
        ("pi-usage-plain", "The usage limit has been reached", None),
        ("pi-insufficient", "You exceeded your current quota, please check", None),
    ],
)  # fmt: skip
def test_e13_a_thread_that_ends_at_a_usage_limit(
    name: str, text: str, resets_at: float | None
) -> None:
    """E13: the program's own sentence, and the time that the provider told, where it did."""
    limit = read(name).limit

    assert limit is not None
    assert limit.text.startswith(text)
    assert limit.resets_at == resets_at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You're out of extra usage · resets 7pm (Asia/Seoul)", berlin(26, 11)),
        ("You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", berlin(1, 1, month=12)),
        ("You have reached your specified API usage limits. You will regain access on 2026-12-01.", berlin(1, 0, month=12)),
        ("Claude usage limit reached. Your limit will reset at 9am (America/Chicago).", berlin(25, 16)),
        ("Your credit balance is too low to access the Anthropic API.", None),
        ("spend limit reached · resets Dec 8 · request an increase at https://x", berlin(8, 0, month=12)),
        ("spend limit reached · resets Aug 8 · request an increase at https://x", None),
        ("You've hit your session limit · resets 15:30", berlin(25, 15, 30)),
        ("You've hit your session limit · resets 13:30", berlin(26, 13, 30)),
        ("You've hit your weekly limit · resets Fri 9am (UTC)", berlin(27, 10)),
        ("You've hit your weekly limit · resets Wednesday 2pm", berlin(2, 14, month=12)),
        ("You've hit your session limit · resets 25:30", None),
    ],
)  # fmt: skip
def test_the_words_of_2026_are_limits_with_their_reset(
    text: str, expected: datetime | None
) -> None:
    """Clocks of 24 hours, weekdays, dates alone; a date too far away is a wrong clock."""
    assert resets(text) == expected


@pytest.mark.parametrize(
    "name", ["claude-minute", "claude-overloaded", "codex-minute", "pi-minute"]
)
def test_e13_a_transient_error_is_no_usage_limit(name: str) -> None:
    """A limit of a minute, and an overloaded server, pass by themselves."""
    thread = read(name)

    assert thread.notices[-1].kind == "error"
    assert thread.limit is None


def test_e13_the_sentence_alone_is_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex records no window here, and its sentence has the clock of its machine, which was in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    limit = read("codex-usage-far").limit

    assert limit == TurnFailure("limit", limit.text if limit else "", 1795914780.0)


def test_e13_a_later_answer_ends_it(tmp_path: Path) -> None:
    """An answer after the limit means that the account works again; a prompt alone does not."""
    lines = (FIXTURES / "limits" / "codex-usage.jsonl").read_text().splitlines()
    prompt = next(line for line in lines if "Build the upload client" in line)
    answer = next(line for line in lines if '"role": "assistant"' in line)
    path = tmp_path / "rollout.jsonl"
    codex = harnesses.get_harness("codex")
    path.write_text("\n".join([*lines, prompt]) + "\n")
    waiting = codex.read(path)
    path.write_text("\n".join([*lines, prompt, answer]) + "\n")

    assert waiting.limit is not None
    assert codex.read(path).limit is None


def test_e13_a_later_error_of_another_kind_hides_it(tmp_path: Path) -> None:
    """Only the last thing that happened counts."""
    lines = (FIXTURES / "limits" / "claude-five.jsonl").read_text().splitlines()
    other = (FIXTURES / "limits" / "claude-overloaded.jsonl").read_text().splitlines()[-1]
    after = {**json.loads(other), "parentUuid": json.loads(lines[-1])["uuid"]}
    path = tmp_path / "thread.jsonl"
    path.write_text("\n".join([*lines, json.dumps(after)]) + "\n")

    assert harnesses.get_harness("claude").read(path).limit is None


def test_e13_hooks_tell_it_too() -> None:
    """Claude Code's hook has the sentence and the name of the error; pi's and opencode's have the error."""
    stop = {
        "hook_event_name": "StopFailure", "session_id": "s", "error": "rate_limit",
        "last_assistant_message": "You've hit your 5-hour limit · resets 2:18am (Europe/Berlin)",
    }  # fmt: skip
    pi = {
        "event": "idle",
        "session": "s",
        "text": "words",
        "error": '429: {"type":"usage_limit_reached"}',
    }
    events = {
        "claude": stop,
        "pi": pi,
        "opencode": {**pi, "session": "ses_deafa1a5effeS6ba223y9z3e5A"},
    }
    for name, payload in events.items():
        control = harnesses.require_control(name)
        event = control.parse_event(payload)

        assert isinstance(event, AgentEvent)
        assert find_limit(event.error, AT.timestamp(), code=event.error_code), name


def test_e13_words_of_an_agent_are_no_error() -> None:
    """An agent that says such a sentence in its answer is at no limit."""
    said = "You've hit your 5-hour limit · resets 3pm"
    stop = {"hook_event_name": "Stop", "session_id": "s", "last_assistant_message": said}
    event = harnesses.require_control("claude").parse_event(stop)

    assert event is not None
    assert event.error == ""


# -- sentences and times ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You've hit your session limit · resets 3pm", berlin(25, 15)),
        ("5-hour limit reached ∙ resets 3pm", berlin(25, 15)),
        ("Limit reached · resets 2:30pm (Europe/Berlin)", berlin(25, 14, 30)),
        ("You've hit your limit · resets 9am (America/New_York)", berlin(25, 15)),
        ("You've hit your limit · resets 2pm", berlin(26, 14)),
        ("You've hit your limit · resets 12am", berlin(26, 0)),
        ("You've hit your weekly limit · resets Nov 29, 2am", berlin(29, 2)),
        ("Opus weekly limit reached ∙ resets Dec 2 at 12pm", berlin(2, 12, month=12)),
        ("Weekly limit reached · resets Nov 25, 2pm", None),
        ("You’ve hit your usage limit. Try again at 3:05 PM.", berlin(25, 15, 5)),
        ("You’ve hit your usage limit. Try again at Nov 26th, 2026 1:13 AM.", berlin(26, 1, 13)),
        ("You've hit your usage limit. Try again in 1 day 2 hours 3 minutes.", AT + timedelta(days=1, hours=2, minutes=3)),
        ("You have hit your ChatGPT usage limit (plus plan). Try again in ~12 min.", AT + timedelta(minutes=12)),
        ("You have exhausted your daily quota on this model.", None),
        ("You've hit your limit · resets 3pm (Nowhere/Land)", None),
        ("You've hit your limit · resets 31pm", None),
        ("You've hit your limit · resets Feb 31, 3pm", None),
        ("You've hit your limit", None),
    ],
)  # fmt: skip
def test_e13_times_are_resolved_from_the_entry(text: str, expected: datetime | None) -> None:
    """The next such time after the entry, in the zone that the sentence names or the machine's."""
    assert resets(text) == expected


def test_e13_the_old_form_has_seconds_since_1970() -> None:
    """Claude Code 1 wrote `Claude AI usage limit reached|1712345678`; the number is no part of the words."""
    then = int((AT + timedelta(hours=2)).timestamp())
    limit = find_limit(f"Claude AI usage limit reached|{then}", AT.isoformat())

    assert limit == TurnFailure("limit", "Claude AI usage limit reached", float(then))


def test_e13_a_year_may_end_before_it_resets() -> None:
    """On New Year's Eve the next January is meant."""
    at = datetime(2025, 12, 31, 20, 0, tzinfo=BERLIN)

    assert resets("You've hit your weekly limit · resets Jan 2, 3pm", at) == berlin(
        2, 15, month=1, year=2026
    )


def test_e13_the_clock_changes_before_it_resets() -> None:
    """A night in which the clocks go back has one hour more, and `3am` is one of them."""
    at = datetime(2025, 10, 26, 0, 30, tzinfo=BERLIN)

    assert resets("You've hit your limit · resets 3am", at) == berlin(26, 3, month=10, year=2025)


@pytest.mark.parametrize(
    "at",
    ["", "yesterday", "1970-01-01T00:00:00Z", "2190-01-01T00:00:00Z", "9999-12-31T23:59:59Z"],
)
def test_e13_a_wrong_clock_gives_no_time(at: str) -> None:
    """Without a plausible time of the entry the limit is known, and its end is not."""
    assert find_limit("You've hit your limit · resets 3pm", at) == TurnFailure(
        "limit", "You've hit your limit · resets 3pm"
    )


@pytest.mark.parametrize(
    "resets_at", [AT.timestamp() - 1, AT.timestamp() + 90 * 86400, -5, 1e300, "x", True]
)
def test_e13_a_told_time_that_cannot_be_gives_no_time(resets_at: object) -> None:
    """A reset before the entry, or long after it, comes from another clock."""
    limit = find_limit("You've hit your limit", AT.isoformat(), resets_at=resets_at)

    assert limit is not None
    assert limit.resets_at is None


@pytest.mark.parametrize(
    "text",
    [
        "", "API Error: 529 Overloaded", "Context limit reached · /compact or /clear to continue",
        "You've hit your fast limit · resets in 2m", "Rate limit reached for gpt-5 on tokens per min",
        "Du hast dein Nutzungslimit erreicht", "exceeded retry limit, last status: 429 Too Many Requests",
        '429: {"type":"tokens","code":"rate_limit_exceeded","message":"Please try again in 6s."}',
        '{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}}',
        '{"error":', "[" * 5000, '{"a":' * 5000, '{"type": ["usage_limit_reached"]}',
        "This request would exceed your account's rate limit. Please try again later.",
    ],
)  # fmt: skip
def test_e13_unknown_is_unknown(text: str) -> None:
    """No other sentence, no other language and no broken body is taken for a usage limit."""
    assert find_limit(text, AT.isoformat()) is None


def test_e13_a_reset_is_shown_on_the_clock_of_the_machine() -> None:
    """Today's is a time, another day's has its date; an unknown one is empty."""
    now = AT.timestamp()

    assert describe_reset(berlin(25, 15).timestamp(), now) == "15:00"
    assert describe_reset(berlin(29, 2, 5).timestamp(), now) == "Nov 29 02:05"
    assert describe_reset(None) == ""
