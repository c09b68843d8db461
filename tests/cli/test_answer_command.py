"""What `tasuki agent answer` sends: an older host knows one `choice`, and ignores `choices`."""

from typing import Any

import pytest
from click.testing import CliRunner

from tasuki.cli.fleet import answer

CHOICES = [{"key": "1", "label": "A"}, {"key": "2", "label": "B"}]


class Client:
    """The client of a server whose agent asks a question; keeps what it is sent."""

    def __init__(self, takes_several: bool | None) -> None:
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
    takes_several: bool | None, words: list[str], sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are sent to where several can be taken; words that are no choices are a text."""
    client = Client(takes_several)
    monkeypatch.setattr(answer, "create_client", lambda: client)
    done = CliRunner().invoke(answer.answer, ["7", *words], catch_exceptions=False)

    assert done.output.startswith("Agent 7 took it")
    assert client.sent == {"mark": "m1", **sent}
