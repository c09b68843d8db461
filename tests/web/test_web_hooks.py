"""Hooks post events: an agent is found or appears, nothing that they send does harm."""

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from web_servers import Answer, Served, serving

from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A server on each kind of database, for all tests of this file."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres").make()
    with serving(tmp_path_factory.mktemp("web"), url) as one:
        yield one


def hook(
    served: Served, session: str, event: str = "SessionStart", id: str = "", **more: Any
) -> Answer:
    """What Claude Code's hook posts."""
    payload = {
        "hook_event_name": event,
        "session_id": session,
        "cwd": "/",
        "transcript_path": "/t.jsonl",
        **more,
    }
    return posted(served, json.dumps(payload).encode(), **({"X_Tasuki_Event": id} if id else {}))


def posted(served: Served, body: bytes, harness: str = "claude", **headers: str) -> Answer:
    """A body as it is."""
    return served.ask("POST", f"/api/hooks/{harness}", body, token=served.tokens.hook, **headers)


def of_session(served: Served, session: str) -> list[FleetAgent]:
    """The agents of a session."""
    return [
        agent for agent in queries.list_agents(served.fleet.database) if agent.session == session
    ]


def test_an_unknown_session_appears(served: Served) -> None:
    """An anonymous agent, never an error; the hook prints nothing."""
    got = hook(served, "session-1", source="startup")

    assert (200, b"", "text/plain; charset=utf-8") == (
        got.status,
        got.body,
        got.headers["content-type"],
    )
    (agent,) = of_session(served, "session-1")
    assert ("claude", None, "idle") == (agent.harness, agent.persona, agent.state)


def test_the_same_event_counts_once(served: Served) -> None:
    """By its id: a hook that got no answer in time sends it again later."""
    before = queries.find_newest_place(served.fleet.database).id
    for _ in range(3):
        assert 200 == hook(served, "session-2", id="once").status

    log = queries.list_events_after(served.fleet.database, before, 100)
    assert 1 == len([event for event in log if event.kind == "started"])


def test_many_hooks_at_once(served: Served) -> None:
    """Every one is answered, and each session is one agent."""
    statuses: list[int] = []

    def run(number: int) -> None:
        for _ in range(4):
            statuses.append(hook(served, f"many-{number % 8}").status)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [200] * 96 == statuses
    assert [1] * 8 == [len(of_session(served, f"many-{number}")) for number in range(8)]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff" * 100, b"[" * 50_000, b'{"hook_event_name": []}', b'{"hook_event_name": "SessionStart"}',
     b'{"hook_event_name": "Nope", "session_id": {"a": 1}}', b'{"hook_event_name": "SessionStart", "session_id": 7}',
     b'{"hook_event_name": "SessionStart", "session_id": "a\\u0000b\\ud800"}',
     b'{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": ' + b'"' + b"x" * 900_000 + b'"}'],
)  # fmt: skip
def test_a_malformed_body_does_no_harm(served: Served, body: bytes) -> None:
    """It is answered, and the next event is taken in."""
    assert 200 == posted(served, body).status
    assert 200 == hook(served, "after-harm").status
    assert 1 == len(of_session(served, "after-harm"))


def test_a_body_that_is_too_large(served: Served) -> None:
    """413 above 1 MiB."""
    assert 413 == posted(served, b"x" * ((1 << 20) + 1)).status


def test_hostile_headers_do_no_harm(served: Served) -> None:
    """Times, processes and panes that are none."""
    headers = {"X_Tasuki_Time": "9" * 400, "X_Tasuki_Pid": "-1e999", "X_Tasuki_Pane": "%1; kill-server", "X_Tasuki_Agent": "\xff" * 300,
               "X_Tasuki_Event": "\xe9" * 5000, "X_Tasuki_Socket": "../x"}  # fmt: skip
    body = b'{"hook_event_name": "SessionStart", "session_id": "hostile-headers", "cwd": "/"}'

    assert 200 == posted(served, body, **headers).status
    assert 200 == posted(served, body, X_Tasuki_Pid="nan", X_Tasuki_Time="inf").status


def test_an_unknown_harness(served: Served) -> None:
    """404, and nothing is taken in."""
    assert [404, 404, 404] == [
        posted(served, b"{}", harness=name).status for name in ("nope", "..%2f", "Claude")
    ]


def test_a_hook_is_no_page(served: Served) -> None:
    """A page of another origin cannot post events, even as a form."""
    assert 403 == posted(served, b"{}", Origin="https://evil.example").status
    assert 401 == served.ask("POST", "/api/hooks/claude", b"{}", token="").status


def test_a_server_that_cannot_take_more_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 and a sentence, as everywhere in the API: the hook keeps its event."""
    full: queue.Queue[Any] = queue.Queue(1)
    full.put(None)
    monkeypatch.setattr(served.fleet.intake, "_queue", full)

    got = hook(served, "one-too-many")

    assert (503, "Too many events are waiting; this one was not taken in.") == (
        got.status,
        got.error,
    )
