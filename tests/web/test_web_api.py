"""The REST API: what it tells, what it refuses, and in which words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
from selection import by_default
from web_servers import Served, serving

from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store.queries import find_newest_place

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
"""What looks like a key."""


@pytest.fixture(scope="module", params=by_default(["sqlite", "postgresql"], "sqlite"))
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A server on each kind of database, for all tests of this file."""
    folder = tmp_path_factory.mktemp("web")
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres").make()
    with serving(folder, url) as one:
        yield one


@pytest.fixture
def slug(served: Served) -> str:
    """A persona of the test's own."""
    return personas.add_persona(
        served.fleet.database, served.fleet.root, NewPersona(role="developer", name="con")
    ).slug


def handing(served: Served, id: int, **body: Any) -> tuple[int, Any]:
    """What asking for a handoff gives."""
    got = served.ask("POST", f"/api/agents/{id}/handoff", {"reason": "context_limit", **body})
    return got.status, got.json


# -- handing off: the words of the requirements ----------------------------------------


def test_fr2_an_agent_that_ended(served: Served, slug: str) -> None:
    """400, `Agent is not active`."""
    id = records.agent(served.fleet.database, persona=slug, pane="%1", ended_at=1.0, state="ended")

    assert (400, {"error": "Agent is not active", "kind": "NotPossible"}) == handing(served, id)


def test_fr2_an_agent_without_persona(served: Served) -> None:
    """400, `Agent has no persona`."""
    id = records.agent(served.fleet.database, pane="%1")

    assert (400, {"error": "Agent has no persona", "kind": "NotPossible"}) == handing(served, id)


def test_fr2_an_agent_without_pane(served: Served, slug: str) -> None:
    """400, and tmux is named."""
    id = records.agent(served.fleet.database, persona=slug)

    assert (400, {"error": "Agent has no tmux pane", "kind": "NotPossible"}) == handing(served, id)


def test_fr2_no_such_agent(served: Served) -> None:
    """404; a number of any size, and what is none."""
    assert (404, "AgentNotFound") == (lambda s, j: (s, j["kind"]))(*handing(served, 999999))
    assert 404 == handing(served, 10**40)[0]
    assert 404 == served.ask("POST", "/api/agents/x/handoff", {"reason": "r"}).status


@pytest.mark.parametrize("state", ["running", "done"])
def test_nfr3_a_handoff_that_is_there(served: Served, slug: str, state: str) -> None:
    """409 `Handoff already in progress` while one is under way or recorded; which one is told."""
    id = records.agent(served.fleet.database, persona=slug, pane="%1")
    handoff = f"{id:032x}"
    records.handoff(served.fleet.database, handoff, id, persona=slug, state=state)

    told = {"error": "Handoff already in progress", "kind": "AlreadyUnderWay", "handoff": handoff}
    assert (409, told) == handing(served, id)


def test_a_failed_one_may_be_retried(served: Served, slug: str) -> None:
    """409 behind its record, and the API says how."""
    id = records.agent(served.fleet.database, persona=slug, pane="%1")
    handoff = f"{id:032x}"
    records.handoff(
        served.fleet.database, handoff, id, persona=slug, state="failed", recorded_at=1.0
    )

    status, told = handing(served, id)
    assert (409, f"POST /api/handoffs/{handoff}/retry") == (status, told["retry"])


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "reason"), ({"reason": ""}, "reason"), ({"reason": 1}, "reason"), ({"reason": "x" * 4001}, "reason"),
     ({"reason": "r", "from": "nowhere"}, "from"), ({"reason": "r", "froce": True}, "froce"),
     ({"reason": "r", "force": "yes"}, "force"), ({"reason": "r", "context": None}, "context")],
)  # fmt: skip
def test_a_wrong_body_names_the_field(served: Served, body: Any, field: str) -> None:
    """400, and a sentence."""
    got = served.ask("POST", "/api/agents/1/handoff", body)

    assert 400 == got.status
    assert field in got.error
    assert got.error.endswith(".")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"reason": NaN}']
)
def test_a_malformed_body_is_a_sentence(served: Served, body: bytes) -> None:
    """400, whatever it holds."""
    got = served.ask("POST", "/api/agents/1/handoff", body, Content_Type="application/json")

    assert 400 == got.status
    assert got.error.endswith(".")
    assert "fault of tasuki" not in got.error


def test_a_body_that_is_too_large(served: Served) -> None:
    """413, told before it is read."""
    got = served.ask(
        "POST",
        "/api/personas",
        b'{"role": "' + b"x" * (1 << 20) + b'"}',
        Content_Type="application/json",
    )

    assert (413, "The body is too large: at most 1 MiB.") == (got.status, got.error)


def test_what_is_not_there(served: Served) -> None:
    """404 and 405, in words and without what was sent to move a cursor."""
    missing = served.ask("GET", "/api/nothing%1b[2J")
    wrong = served.ask("PUT", "/api/agents")

    assert (404, "Nothing exists at /api/nothing. All paths: /schema") == (
        missing.status,
        missing.error,
    )
    assert (405, "PUT is not possible at /api/agents.") == (wrong.status, wrong.error)


# -- personas --------------------------------------------------------------------------


def test_a_persona_from_first_to_last(served: Served) -> None:
    """Added, shown, changed, retired; each is told in the log."""
    before = find_newest_place(served.fleet.database).id
    made = served.ask(
        "POST", "/api/personas", {"role": "Tester", "name": "Ann", "skill": "You test."}
    ).json
    slug = made["slug"]
    path = f"/api/personas/{slug}"

    assert ("tester-ann-1", None) == (slug, made["threshold"])
    assert ("You test.", []) == (lambda told: (told["skill"], told["agents"]))(
        served.ask("GET", path).json
    )
    changed = served.ask(
        "PATCH", path, {"threshold": 60, "automatic": True, "skill": "You test all."}
    ).json
    assert (60.0, True, "claude") == (
        changed["threshold"],
        changed["automatic"],
        changed["harness"],
    )
    assert served.ask("PATCH", path, {"threshold": None}).json["threshold"] is None
    assert served.ask("DELETE", path).json["retired_at"] > 1
    assert slug not in [p["slug"] for p in served.ask("GET", "/api/personas").json["personas"]]
    assert [slug] == [
        p["slug"] for p in served.ask("GET", "/api/personas?retired=true").json["personas"]
    ]
    log = served.ask("GET", f"/api/log?after={before}").json["events"]
    assert ["added", "changed: automatic, skill, threshold", "changed: threshold", "retired"] == [
        event["text"].removeprefix(f"Persona {slug} was ").rstrip(".") for event in log
    ]


@pytest.mark.parametrize("slug", ["..%2f..%2fetc", "..", "a-b-1%00", "%ff", "developer-nobody-1"])
def test_a_hostile_slug_finds_nothing(served: Served, slug: str) -> None:
    """404, for every way to ask."""
    asked = [("GET", "personas", None), ("PATCH", "personas", {"model": "m"}), ("DELETE", "personas", None),
             ("GET", "lineage", None)]  # fmt: skip

    assert (
        {404}
        <= {served.ask(method, f"/api/{what}/{slug}", body).status for method, what, body in asked}
        <= {404, 405}
    )


@pytest.mark.parametrize("role", ["../x", "a b", "", "x" * 40, "\x1b[2J", "ä"])
def test_a_hostile_role_is_refused(served: Served, role: str) -> None:
    """400, and no folder."""
    got = served.ask("POST", "/api/personas", {"role": role, "name": "con"})

    assert (400, True) == (got.status, "cannot be a persona's role" in got.error)
    assert "\x1b" not in got.error


def test_a_persona_at_work_is_not_retired(served: Served, slug: str) -> None:
    """400, and how to go on."""
    id = records.agent(served.fleet.database, persona=slug)
    got = served.ask("DELETE", f"/api/personas/{slug}")

    assert (400, f"Agent {id} works as {slug}. Stop it first: tasuki agent stop {id}") == (
        got.status,
        got.error,
    )


# -- agents and handoffs ---------------------------------------------------------------


def test_agents_are_listed_and_shown(served: Served, slug: str) -> None:
    """By persona and state; nothing of a token."""
    ids = [records.agent(served.fleet.database, persona=slug, token_hash="h") for _ in range(2)]
    records.agent(served.fleet.database, persona=slug, ended_at=1.0, state="ended")

    got = served.ask("GET", f"/api/agents?ended=false&persona={slug}").json["agents"]
    assert ids[::-1] == [one["id"] for one in got]
    assert 1 == len(served.ask("GET", f"/api/agents?persona={slug}&limit=1").json["agents"])
    shown = served.ask("GET", f"/api/agents/{ids[0]}").json
    assert (ids[0], slug, []) == (shown["id"], shown["persona"], shown["handoffs"])
    assert "token_hash" not in shown
    for query in ("limit=0", "limit=1001", "limit=x", "ended=maybe"):
        got = served.ask("GET", f"/api/agents?{query}")
        assert (400, True) == (got.status, query.partition("=")[0] in got.error)


def test_agents_that_cannot_be_started(served: Served, slug: str, tmp_path: Path) -> None:
    """The reason in words, and the status that goes with it."""
    start: Any = lambda **body: served.ask("POST", "/api/agents", {"cwd": str(tmp_path), **body})  # noqa: E731

    assert 404 == start(persona="developer-nobody-1").status
    assert 400 == start(harness="nope").status
    assert 400 == start(persona=slug, cwd="/no/such/folder").status
    assert 400 == start(arguments=["x"] * 65).status
    records.agent(served.fleet.database, persona=slug)
    got = start(persona=slug)
    assert (409, True) == (got.status, f"works as {slug} already" in got.error)


def test_what_cannot_be_done_to_an_agent(served: Served) -> None:
    """Typed to, stopped, adopted: each refusal is a sentence."""
    id = records.agent(served.fleet.database, ended_at=1.0, state="ended")

    assert (400, "Agent is not active") == (lambda g: (g.status, g.error))(
        served.ask("POST", f"/api/agents/{id}/send", {"text": "hello"})
    )
    assert 400 == served.ask("POST", f"/api/agents/{id}/send", {"text": ""}).status
    assert (
        400
        == served.ask(
            "POST", "/api/agents/adopt", {"pane": "; kill-server", "harness": "claude"}
        ).status
    )
    assert 404 == served.ask("POST", "/api/agents/999999/stop", {}).status


def test_a_handoff_is_shown_with_steps_and_document(
    served: Served, slug: str, tmp_path: Path
) -> None:
    """By the beginning of its id; keys that somebody wrote into it are not."""
    path = tmp_path / "document.md"
    path.write_text(f"# Work\nThe key is {TOKEN}.\n")
    id = records.agent(served.fleet.database, persona=slug)
    handoff = f"{id:08x}" + "f" * 24
    records.handoff(
        served.fleet.database, handoff, id, persona=slug, file_path=str(path), reason=f"use {TOKEN}"
    )

    got = served.ask("GET", f"/api/handoffs/{handoff[:10]}").json

    assert (handoff, []) == (got["id"], got["steps"])
    assert got["document"].startswith("# Work\nThe key is ")
    assert TOKEN not in json.dumps(got)
    listed = served.ask("GET", f"/api/handoffs?agent={id}&state=running").json["handoffs"]
    assert [handoff] == [of["id"] for of in listed]
    assert TOKEN not in json.dumps(listed)
    assert 400 == served.ask("GET", "/api/handoffs?state=nope").status


def test_a_link_in_place_of_a_document_is_not_followed(
    served: Served, slug: str, tmp_path: Path
) -> None:
    """Nor is a pipe waited for."""
    import os

    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "link.md").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe.md")
    for name in ("link.md", "pipe.md", "none.md"):
        id = records.agent(served.fleet.database, persona=slug)
        handoff = f"{id:08x}" + "e" * 24
        records.handoff(
            served.fleet.database, handoff, id, persona=slug, file_path=str(tmp_path / name)
        )
        assert served.ask("GET", f"/api/handoffs/{handoff}").json["document"] in (None, "")


def test_orders_to_a_handoff(served: Served, slug: str) -> None:
    """What can be done is done, what cannot is a sentence, and nothing else is an order."""
    id = records.agent(served.fleet.database, persona=slug, state="ended", ended_at=1.0)
    handoff = f"{id:08x}" + "d" * 24
    records.handoff(
        served.fleet.database, handoff, id, persona=slug, state="failed", step="deliver"
    )
    order: Any = lambda name, of=handoff: served.ask("POST", f"/api/handoffs/{of}/{name}")  # noqa: E731

    assert (400, True) == (
        lambda g: (g.status, "only the acknowledgement can be skipped" in g.error)
    )(order("skip"))
    assert (200, "done") == (lambda g: (g.status, g.json["state"]))(order("finish"))
    assert 400 == order("cancel").status
    assert (404, 404, 400) == (
        order("retry", "abcd").status,
        order("retry", "zz").status,
        order("explode").status,
    )


def test_a_lineage_is_told(served: Served, slug: str) -> None:
    """Agents by whom they succeeded."""
    database = served.fleet.database
    first = records.agent(database, persona=slug)
    second = records.agent(database, persona=slug, previous_agent_id=first)
    records.handoff(
        database, f"{first:08x}" + "c" * 24, first, persona=slug, successor_id=second, state="done"
    )

    (chain,) = served.ask("GET", f"/api/lineage/{slug}").json["chains"]

    assert [(first, None), (second, first)] == [
        (link["agent"]["id"], link["handoff"] and link["handoff"]["agent_id"]) for link in chain
    ]


# -- what describes it -----------------------------------------------------------------


def test_it_describes_itself(served: Served) -> None:
    """OpenAPI at /schema, with every path and without pages from elsewhere."""
    got = served.ask("GET", "/schema")

    assert "3.1.0" == got.json["openapi"]
    assert {
        "/api/agents/{id}/handoff",
        "/api/hooks/{harness}",
        "/api/events",
        "/metrics",
        "/health",
    } <= set(got.json["paths"])
    body = got.json["components"]["schemas"]["NewHandoff"]["properties"]
    assert {
        "reason", "context", "goal", "force", "from", "to", "to_host", "to_cwd", "worktree",
        "with_secrets", "dry_run",
    } == set(body)  # fmt: skip
    assert b"<script" not in got.body
    assert 404 == served.ask("GET", "/schema/swagger").status


def test_it_can_be_monitored(served: Served) -> None:
    """Figures that Prometheus reads."""
    records.agent(served.fleet.database, harness="pi", state="busy")
    got = served.ask("GET", "/metrics")

    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = got.body.decode()
    assert 'tasuki_agents{harness="pi",state="busy"}' in text
    assert "tasuki_hook_seconds_bucket" in text
    assert "tasuki_events_waiting 0.0" in text


def test_lists_go_page_by_page_to_the_oldest(served: Served, slug: str) -> None:
    """Every handoff and agent is reached, once, whatever number there is; counts are of all that are kept."""
    agents = [records.agent(served.fleet.database, persona=slug, ended_at=2.0) for _ in range(25)]
    ids = [f"{number:032x}" for number in range(0xA000, 0xA019)]
    for number, (id, agent) in enumerate(zip(ids, agents, strict=True)):
        records.handoff(
            served.fleet.database, id, agent, persona=slug, state="failed" if number == 0 else "done",
            created_at=100.0 + number // 3,
        )  # fmt: skip

    seen: list[str] = []
    query = f"persona={slug}&limit=7"
    page = served.ask("GET", f"/api/handoffs?{query}").json
    while True:
        seen += [of["id"] for of in page["handoffs"]]
        if page["next"] is None:
            break
        page = served.ask("GET", f"/api/handoffs?{query}&before={page['next']}").json
    first = served.ask("GET", f"/api/agents?{query}").json
    second = served.ask("GET", f"/api/agents?{query}&before={first['next']}").json

    assert sorted(seen) == ids
    assert page["counts"]["failed"] >= 1
    assert [a["id"] for a in first["agents"] + second["agents"]] == agents[::-1][:14]
    assert served.ask("GET", "/api/handoffs?before=zz").status == 404
