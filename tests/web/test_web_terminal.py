"""The terminal's addresses as a browser uses them, and forms that were sent: loaded again, asked for, refused."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from visitors import Visitor, words
from web_servers import Served, serving

import tasuki
from tasuki.web.views import notices
from tasuki.web.views.notices import PageNotices

BATCH = {"keys": [{"type": "text", "value": "a"}], "typist": "x", "number": 1}


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    """A browser that is signed in, with an agent whose pane does not exist."""
    with serving(tmp_path) as served:
        fleet_records.agent(served.fleet.database, pane="%99", adopted=True, host=served.fleet.host)
        yield Visitor(served)


def test_a_terminal_that_cannot_be_shown_is_a_sentence(visitor: Visitor) -> None:
    """No error of the console: the browser shows what it says above the terminal."""
    answer = visitor.get("/agents/1/terminal")

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["problem"]


def test_a_terminal_needs_a_session(visitor: Visitor) -> None:
    """Nobody else reads it or types there."""
    served: Served = visitor.served
    read = served.ask("GET", "/agents/1/terminal", token="", Host=served.site)
    typed = served.ask("POST", "/agents/1/type", b"batch={}", token="", Host=served.site, Content_Type="application/x-www-form-urlencoded")  # fmt: skip

    assert (read.status, typed.status) == (401, 401)


@pytest.mark.parametrize(
    "query", ["above=x", "above=-9", "epoch=" + "x" * 99, "above=99999999999999999999"]
)
def test_odd_questions_are_refused(visitor: Visitor, query: str) -> None:
    """What no page asks is no fault of the server's own."""
    assert 400 <= visitor.get(f"/agents/1/terminal?{query}").status < 500


@pytest.mark.parametrize(
    "batch",
    [
        "", "{}", "[]", "[" * 5000, json.dumps({**BATCH, "keys": []}), json.dumps({**BATCH, "number": 0}),
        json.dumps({**BATCH, "typist": ""}), json.dumps({**BATCH, "keys": [{"type": "file", "value": "x"}]}),
        json.dumps({**BATCH, "keys": [{"type": "key", "value": "kill-server"}]}),
        json.dumps({**BATCH, "keys": [{"type": "key", "value": "Enter ; kill-server"}]}),
        json.dumps({**BATCH, "keys": [{"type": "text", "value": "x" * 4001}]}),
        json.dumps({**BATCH, "keys": [{"type": "paste", "value": "x" * 100_001}]}),
        json.dumps({**BATCH, "keys": [{"type": "text", "value": "x"}] * 501}), '{"keys": "\ud800"}',
    ],
)  # fmt: skip
def test_odd_batches_are_refused(visitor: Visitor, batch: str) -> None:
    """Each with a sentence, and nothing is typed."""
    answer = visitor.post("/agents/1/type", batch=batch.encode("utf-8", "replace").decode())

    assert answer.status == 200
    assert answer.json["problem"].endswith(".")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/agents/1/send", "/agents/1"), ("/agents/1/keys", "/agents/1"), ("/agents/1/type", "/agents/1"),
        ("/agents/adopt", "/agents/new"), ("/alerts/seen", "/alerts"), ("/settings/threshold", "/settings"),
        ("/settings/automation/x", "/settings/automation"), ("/settings/sessions/end", "/settings/browsers"), ("/settings/test", "/settings/notifications"), ("/personas/x/skill", "/personas/x"),
        ("/hosts/x/label", "/hosts"), ("/handoffs/abc/retry", "/handoffs/abc"), ("/briefs/abc/start", "/briefs/abc"),
        ("/drafts/abc/cancel", "/drafts/abc"), ("/threads/claude/x/handoff", "/threads/claude/x"), ("/logout", "/"),
        ("/agents/1/thread/copy", "/agents/1/thread"),
    ],
)  # fmt: skip
def test_an_address_of_a_form_leads_to_its_page(visitor: Visitor, path: str, page: str) -> None:
    """A browser that loads it again comes to the page that has the form."""
    answer = visitor.served.ask("GET", path, token="", Cookie=visitor.cookie, Accept="text/html")

    assert (answer.status, answer.headers.get("location")) == (303, page)


def test_other_methods_are_refused_as_before(visitor: Visitor) -> None:
    """Only what loads a page is led on; the API says what is not possible."""
    served: Served = visitor.served

    assert served.ask("DELETE", "/agents/1/send", Accept="text/html").status == 405
    assert served.ask("GET", "/api/agents/1/send").status == 405


def test_a_refused_text_comes_back(visitor: Visitor) -> None:
    """The page says why, and the text is still typed in; once its time is over it is only the page."""
    sent = visitor.post("/agents/1/send", text="Build <it>", page="p")
    address = sent.headers["location"].partition("#")[0]
    first, again = visitor.page(address), visitor.page(address)

    assert sent.status == 303
    assert "Build &lt;it&gt;</textarea>" in first
    assert 'role="alert"' in first
    assert "Build &lt;it&gt;</textarea>" in again
    assert "Build" not in visitor.page("/agents/1?said=another")


def test_a_change_of_the_settings_is_said_after_a_redirect(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page can be loaded again without the change being made again."""
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    sent = visitor.post("/settings/threshold", context_threshold="70")

    assert (sent.status, sent.headers["location"].partition("=")[0]) == (303, "/settings?said")
    assert "Saved; it applies from now on." in words(visitor.page(sent.headers["location"]))


def test_notices_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is said for a time from when it was first seen; another kind is none, and the oldest go."""
    monkeypatch.setattr(notices, "SEEN_SECONDS", -1.0)
    kept = PageNotices()
    key = kept.add("said")
    others = [kept.add(n) for n in range(notices.MOST_NOTICES - 1)]

    assert kept.find(key, int) is None
    assert [kept.find(key, str), kept.find(key, str)] == ["said", None]
    assert kept.find(kept.add("more"), str) == "more"
    assert kept.find(key, str) is None
    assert kept.find(others[5], int) == 5


def test_what_is_vendored_is_what_was_published() -> None:
    """The scripts of others are the bytes of their packages, each with its licence beside it."""
    folder = Path(tasuki.__file__).parent / "web" / "static" / "vendor"
    published = {
        "xterm-5.5.0.min.js": "1f991ac3b4b283ebf96e60ae23a00a52765dd3a2e46fa6fdda9f1aab032f7495", "xterm-5.5.0.css": "ba8e6985669488981ccf40c0cefe3aba80722cb6c92de7ad628b0bd717faf2b6",
    }  # fmt: skip
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in published}

    assert found == published
    assert "Permission is hereby granted" in (folder / "xterm-LICENSE").read_text()
