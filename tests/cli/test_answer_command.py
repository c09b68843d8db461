"""What `tasuki agent answer` sends: an older host knows one `choice`, and ignores `choices`."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tasuki.cli.fleet import answer
from tasuki.errors import NotPossible

CHOICES = [{"key": "1", "label": "A"}, {"key": "2", "label": "B"}]


class Client:
    """The client of a server whose agent asks a question; keeps what it is sent."""

    def __init__(self, folder: Path, takes_several: bool | None = None) -> None:
        self.folder = folder
        self.question: dict[str, Any] = {
            "text": "Q?",
            "mark": "m1",
            "asked_at": 0.0,
            "choices": CHOICES,
        }
        if takes_several is not None:
            self.question["takes_several"] = takes_several
        self.sent: Any = None

    def get(self, *parts: object) -> Any:
        """The agent."""
        return {"question": self.question}

    def post(self, *parts: object, body: Any) -> Any:
        """The answer."""
        self.sent = body
        return {"state": "proven", "why": "", "answer": ""}


@pytest.mark.parametrize(
    ("takes_several", "words", "sent"),
    [
        (None, ["1"], {"choice": "1"}),
        (False, ["1"], {"choice": "1"}),
        (False, ["1", "2"], {"text": "1 2"}),
        (True, ["1"], {"choices": ("1",)}),
        (True, ["2", "1"], {"choices": ("2", "1")}),
        (True, ["1", "more"], {"text": "1 more"}),
    ],
)
def test_one_choice_is_sent_as_older_hosts_know_it(
    takes_several: bool | None,
    words: list[str],
    sent: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several are sent to where several can be taken; words that are no choices are a text."""
    client = Client(tmp_path, takes_several)
    monkeypatch.setattr(answer, "create_client", lambda: client)
    CliRunner().invoke(answer.answer, ["7"], catch_exceptions=False)
    done = CliRunner().invoke(answer.answer, ["7", *words], catch_exceptions=False)

    assert done.output.startswith("Agent 7 took it")
    assert client.sent == {"mark": "m1", **sent}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"mark": "m2"}, "It asks something else"),
        ({"choices": CHOICES[::-1]}, "It asks something else"),
        ({"detail": "rm [REDACTED:key]"}, "A secret is hidden in it"),
        ({"obstacle": "It is too tall."}, "It is too tall."),
    ],
)
def test_what_was_not_shown_so_is_not_answered(
    changed: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another question, other choices, a secret that is replaced on the way, or an obstacle by now."""
    client = Client(tmp_path)
    monkeypatch.setattr(answer, "create_client", lambda: client)
    CliRunner().invoke(answer.answer, ["7"], catch_exceptions=False)
    client.question = {**client.question, **changed}

    with pytest.raises(NotPossible, match=why):
        CliRunner().invoke(answer.answer, ["7", "1"], catch_exceptions=False)
    assert client.sent is None
