"""No link of the dashboard leads to an error, and what is lost can be cleared."""

import html
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from visitors import Visitor, words
from web_servers import Served, serving

STATES = ("starting", "idle", "busy", "waiting", "limited", "stuck", "lost", "ended")
MOST_QUERIES = 4
_LINK = re.compile(r'href="(/[^"#]*)')


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server without agents, of a user without threads."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving(tmp_path) as made:
        yield made


def fill(served: Served, count: int) -> None:
    """Agents in every state, half of them without persona; none has a thread or a pane."""
    database, now = served.fleet.database, time.time()
    for number in range(count):
        state = STATES[number % len(STATES)]
        slug = f"developer-con-{number + 1}" if number % 2 else ""
        if slug:
            fleet_records.persona(database, slug)
        values = {"ended_at": now, "end_reason": "its pane is gone"} if state in ("lost", "ended") else {}  # fmt: skip
        fleet_records.agent(
            database, state=state, persona=slug or None, host=served.fleet.host, state_at=now,
            started_at=now, goal="Sort the imports" if number % 3 else "",
            session=f"0192d3c4-0000-7000-8000-{number:012}" if number % 4 else "", **values,
        )  # fmt: skip


def crawl(visitor: Visitor) -> dict[str, int]:
    """Open the pages that links lead to, from the fleet's page on; the status of each.

    Of one page with several queries only the first few.
    """
    found: dict[str, int] = {}
    visits: Counter[str] = Counter()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        place = path.partition("?")[0]
        if path in found or path.startswith("/static/") or visits[place] >= MOST_QUERIES:
            continue
        visits[place] += 1
        answer = visitor.get(path)
        found[path] = answer.status
        if "html" in answer.headers.get("content-type", ""):
            waiting += [html.unescape(link) for link in _LINK.findall(answer.body.decode())]
        if "location" in answer.headers:
            waiting.append(answer.headers["location"].partition("#")[0])
    return found


@pytest.mark.parametrize("count", [0, 1, 30])
def test_no_link_leads_to_an_error(served: Served, count: int) -> None:
    """From the fleet's page every page that a link leads to opens, with 0, 1 and 30 agents."""
    fill(served, count)
    found = crawl(Visitor(served))

    assert {} == {path: status for path, status in found.items() if status >= 400}
    assert len(found) > 15 + 2 * count


def test_a_lost_agent_is_cleared_with_one_click(served: Served) -> None:
    """Its card has the form; then it counts as ended, needs nobody, and the log says so."""
    fill(served, 7)
    visitor, lost = Visitor(served), 7
    before = visitor.page("/?show=needs")
    answer = visitor.post(f"/agents/{lost}/clear")
    after = visitor.page("/?show=needs")
    agent = served.ask("GET", f"/api/agents/{lost}").json
    again = served.ask("POST", f"/api/agents/{lost}/clear", b"{}", Content_Type="application/json")

    assert f'action="/agents/{lost}/clear"' in before
    assert answer.status == 303
    assert f"/agents/{lost}/clear" not in after
    assert (agent["state"], agent["end_reason"]) == ("ended", "its pane is gone; the operator cleared it")  # fmt: skip
    assert (again.status, again.error) == (400, f"Agent {lost} is not lost: it is ended.")
    assert "was cleared" in words(visitor.page(f"/agents/{lost}"))


def test_an_agent_with_a_handoff_under_way_is_not_cleared(served: Served) -> None:
    """The refusal names the handoff; the API says it, too."""
    fill(served, 7)
    fleet_records.persona(served.fleet.database, "developer-con-99")
    fleet_records.handoff(served.fleet.database, "a" * 32, 7, persona="developer-con-99")
    refused = served.ask("POST", "/api/agents/7/clear", b"{}", Content_Type="application/json")

    assert (refused.status, "is under way" in refused.error) == (400, True)
    assert served.ask("GET", "/api/agents/7").json["state"] == "lost"
