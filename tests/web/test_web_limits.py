"""Agents at a usage limit, and stuck ones, on the pages; and the forms that hand them on."""

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import fleet_records as records
import pytest
from fleet_records import SLUG
from visitors import Visitor, words
from web_servers import serving

from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store import queries

SECRET = "sk-ant-api03-" + "a1B2" * 20
HOSTILE = f"<script>alert(1)</script> {SECRET}"


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    """Somebody who looks at a fleet with a persona."""
    with serving(tmp_path) as served:
        fleet = served.fleet
        personas.add_persona(fleet.database, fleet.root, NewPersona(role="developer", name="con"))
        yield Visitor(served)


def agent(visitor: Visitor, **values: object) -> int:
    """An agent of the persona in a pane; its id."""
    fleet = visitor.served.fleet
    given = {"persona": SLUG, "pane": "%9", "host": fleet.host, "ordered_at": 1.0, **values}
    return records.agent(fleet.database, **given)


def test_e13_a_limited_agent_is_shown_with_its_time(visitor: Visitor) -> None:
    """E13: the card, the agent's page and the persona's say until when; it is among those that need somebody."""
    until = time.time() + 3600
    id = agent(visitor, state="limited", limit_text=HOSTILE, limited_until=until)
    badge = re.compile(
        f"Limited until (?:[0-9]+ [A-Z][a-z]+ )?{datetime.fromtimestamp(until):%H:%M}"
    )
    pages = [visitor.page(path) for path in ("/", f"/agents/{id}", f"/personas/{SLUG}")]

    assert all(badge.search(words(page)) for page in pages)
    assert not any(SECRET in page or "<script>alert(1)" in page for page in pages)
    assert "alert(1)" in words(pages[0])


def test_e13_a_limit_without_a_time(visitor: Visitor) -> None:
    """Then only the limit is shown."""
    agent(visitor, state="limited", limit_text="You've hit your limit")

    assert "At a usage limit" in words(visitor.page("/"))


def test_e13_a_stuck_agent_is_shown_with_what_it_runs(visitor: Visitor) -> None:
    """What a child runs is data: no markup of it counts, and no key of it is shown."""
    agent(visitor, state="stuck", stuck_at=time.time() - 1000, stuck_with=f"curl {HOSTILE}")
    page = visitor.page("/")

    assert "Stuck" in words(page)
    assert "It runs: curl <script>alert(1)</script>" in words(page)
    assert "<script>alert(1)" not in page
    assert SECRET not in page


def test_e13_the_form_offers_other_harnesses(visitor: Visitor) -> None:
    """Of a limited agent the document comes from its thread; what cannot be done is said with the form."""
    id = agent(visitor, state="limited", limit_text="You've hit your limit")
    form = visitor.page(f"/agents/{id}/handoff")
    refused = visitor.post(f"/agents/{id}/handoff", reason="limit", to="nothing")

    assert '<option value="codex">Codex</option>' in form
    assert '<option value="" selected>Claude Code</option>' in form
    assert 'value="At a usage limit"' in form
    assert "not possible: You've hit your limit" in words(form)
    assert refused.status == 400
    assert "Unknown harness 'nothing'" in words(refused.body.decode())
    assert queries.list_handoffs(visitor.served.fleet.database) == []


def test_e13_a_persona_says_where_its_work_goes(visitor: Visitor) -> None:
    """The form sets it, shows it, and refuses the persona's own harness."""
    path, database = f"/personas/{SLUG}", visitor.served.fleet.database
    visitor.post(path, harness="claude", model="", threshold="", on_limit="codex")
    chosen = queries.load_persona(database, SLUG).on_limit
    page = visitor.page(path)
    refused = visitor.post(path, harness="codex", model="", threshold="", on_limit="codex")
    visitor.post(path, harness="claude", model="", threshold="", on_limit="")

    assert chosen == "codex"
    assert '<option value="codex" selected>Continue in Codex</option>' in page
    assert refused.status == 400
    assert "no agent can go on in codex" in words(refused.body.decode())
    assert queries.load_persona(database, SLUG).on_limit == ""
