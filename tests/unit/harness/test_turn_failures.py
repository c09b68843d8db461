"""Errors of the last turn, in the words of programs and providers: what kind each is."""

import pytest

from tasuki.harness.reading.turn_failures import FailureRecord, find_failure
from tasuki.model import Entry, TurnFailure

AT = 1795822915.0


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        ("Prompt is too long", "invalid_request", "context"),
        ("Context limit reached · /compact or /clear to continue", "", "context"),
        ("Codex ran out of room in the model's context window. Start a new thread.", "", "context"),
        ("Something", "context_window_exceeded", "context"),
        ("Your input exceeds the context window of this model.", "", "context"),
        ("This model's maximum context length is 128000 tokens.", "", "context"),
        ("input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000", "", "context"),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "", "context"),
        ("API Error: 401 Invalid API key · Please run /login", "authentication_failed", "login"),
        ("Failed to authenticate: OAuth token revoked. Please log in again.", "", "login"),
        ("unexpected status 401 Unauthorized: Missing bearer", "", "login"),
        ("anything", "account_on_hold", "login"),
        ('401: {"type":"error","error":{"type":"authentication_error","message":"no"}}', "", "login"),
        ("API Error: 529 Overloaded", "overloaded", "other"),
        ('{"error":{"type":["overloaded"],"message":"no"}}', "", "other"),
        ("Unable to connect to API (ECONNREFUSED)", "unknown", "other"),
        ("You've hit your 5-hour limit", "rate_limit", "limit"),
        ("Explain what a context window is", "", "other"),
    ],
)  # fmt: skip
def test_what_kind_an_error_is(text: str, code: str, kind: str) -> None:
    """By its sentence, or by the name that the program gives it."""
    failure = find_failure(text, AT, code=code)

    assert failure is not None
    assert failure.kind == kind


def test_an_error_without_words_has_its_name() -> None:
    """Neither a sentence nor a name is no error."""
    assert find_failure("", AT, code="model_not_found") == TurnFailure("other", "model_not_found")
    assert find_failure("", AT) is None


def test_the_sentence_of_a_body_is_shown() -> None:
    """The JSON of a provider is not for people."""
    body = (
        '400: {"error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}}'
    )
    assert find_failure(body, AT) == TurnFailure("context", "prompt is too long: 2 > 1")


@pytest.mark.parametrize(("kind", "ends"), [("assistant", False), ("user", True)])
def test_an_answer_ends_an_error(kind: str, ends: bool) -> None:
    """What the user says after it does not."""
    record = FailureRecord()
    record.note_error("Prompt is too long", AT, 1)
    entries = [Entry(1, "user", "x"), Entry(2, kind, "y")]  # type: ignore[arg-type]

    assert (record.choose(entries) is not None) == ends
