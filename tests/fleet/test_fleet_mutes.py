"""Muted agents: their alerts are listed, and notify nobody."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import fleet_records as records
import pytest
from fleet_desk import Desk
from inboxes import Inbox
from waiting import retry_until
from web_servers import Served, serving

from tasuki.errors import UsageError
from tasuki.fleet import alerts
from tasuki.fleet.alerts import AlertNotifier, describe_mute, parse_mute
from tasuki.fleet.orders.agents import mute_agent
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import MUTED_FOR_GOOD, OperatorAlert
from tasuki.web.security import single_server

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # apprise imports it
NOON = datetime(2026, 11, 26, 12).astimezone().timestamp()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one agent that has a persona, and one that has none."""
    with serving(tmp_path) as made:
        records.persona(made.fleet.database)
        records.agent(made.fleet.database, persona=records.SLUG, host=made.fleet.host)
        records.agent(made.fleet.database, host=made.fleet.host)
        yield made


def raised(served: Served, key: str, agent_id: int | None = 1, kind: str = "needs_you") -> None:
    """Something happened to an agent, or to none."""
    with served.fleet.database.write() as connection:
        alerts.raise_alert(
            connection, kind, key, f"Agent {agent_id} waits", "For you.", host="h", agent_id=agent_id
        )  # fmt: skip


def told(served: Served) -> list[OperatorAlert]:
    """The alerts, the oldest first, once none is due or being sent."""
    database = served.fleet.database
    retry_until(
        lambda: not {"due", "sending"} & {of.state for of in alerts.list_newest_alerts(database, 9)}
    )
    return alerts.list_newest_alerts(database, 9)[::-1]


def test_a_muted_agent_notifies_nobody(served: Served, inbox: Inbox) -> None:
    """Its alert is in the list at once, as quiet; those of others are sent, and its own after it is unmuted."""
    fleet = served.fleet
    mute_agent(fleet, 1, "1h")
    raised(served, "a")
    raised(served, "b", 2)
    raised(served, "c", None)
    mute_agent(fleet, 1, "off")
    raised(served, "d")
    notifier = AlertNotifier(fleet.database, "h", inbox.where, "needs_you")
    notifier.start()
    try:
        found = told(served)
    finally:
        notifier.close(5)

    assert [(of.state, of.muted) for of in found] == [
        ("quiet", True), ("sent", False), ("sent", False), ("sent", False),
    ]  # fmt: skip
    assert inbox.titles == [
        "tasuki: Agent 2 waits", "tasuki: Agent None waits", "tasuki: Agent 1 waits",
    ]  # fmt: skip


def test_a_mute_ends_by_itself(served: Served) -> None:
    """After its time an agent notifies again, and nothing says that it is muted."""
    mute_agent(served.fleet, 2, "1m")
    agent = queries.load_agent(served.fleet.database, 2)
    assert agent.muted_until is not None

    assert describe_mute(agent.muted_until).startswith("muted until ")
    assert describe_mute(agent.muted_until, agent.muted_until) == ""
    assert describe_mute(MUTED_FOR_GOOD) == "muted"


def test_spans_are_what_people_say() -> None:
    """Minutes, hours, days, tomorrow at eight, for good, off; other words are refused."""
    tomorrow = parse_mute("tomorrow", NOON)
    assert tomorrow is not None

    assert parse_mute("30m", NOON) == NOON + 1800
    assert parse_mute("1 h", NOON) == NOON + 3600
    assert parse_mute("2d", NOON) == NOON + 2 * 86400
    assert f"{datetime.fromtimestamp(tomorrow):%d %H:%M}" == "27 08:00"
    assert (parse_mute("", NOON), parse_mute("off", NOON)) == (MUTED_FOR_GOOD, None)
    for wrong in ("0h", "-1h", "1y", "366d", "999999999d", "1h2", "\x1b[2J", "inf"):
        with pytest.raises(UsageError, match="Say 30m, 1h, 2d or tomorrow"):
            parse_mute(wrong, NOON)


def test_the_command_mutes(served: Served, tmp_path: Path) -> None:
    """`tasuki agent mute` says until when; `agent show` does too; `--off` ends it."""
    with single_server.publish_address(tmp_path / "fleet", served.host):
        desk = Desk(tmp_path, served)
        said = desk.out("agent", "mute", "2")
        shown = desk.out("agent", "show", "2")
        data = json.loads(desk.out("agent", "mute", "2", "--for", "1h", "--json"))["agent"]
        over = desk.out("agent", "mute", "2", "--off")

    assert said == "Agent 2 is muted.\n"
    assert "alerts       muted\n" in shown
    assert 3500 < data["muted_until"] - time.time() <= 3600
    assert over == "Agent 2 is no longer muted.\n"


def test_the_api_refuses_what_is_no_span(served: Served) -> None:
    """A word that is no span, and an agent that there is not, change nothing."""
    wrong = served.ask("POST", "/api/agents/1/mute", {"for": "soon"})
    missing = served.ask("POST", "/api/agents/9/mute", {"for": "1h"})

    assert (wrong.status, missing.status) == (400, 404)
    assert "cannot be muted for 'soon'" in wrong.error
    assert queries.load_agent(served.fleet.database, 1).muted_until is None


def test_notifications_hold_a_link(served: Served, inbox: Inbox) -> None:
    """Each that is sent ends with the address of the page that it is about; without pages with none."""
    raised(served, "a")
    raised(served, "b", None)
    notifier = AlertNotifier(served.fleet.database, "h", inbox.where, "needs_you")
    notifier.origin = served.origin
    notifier.start()
    try:
        told(served)
        notifier.origin = ""
        raised(served, "c")
        told(served)
    finally:
        notifier.close(5)

    assert [one["message"].split("\n") for one in inbox.got] == [
        ["For you.", f"{served.origin}/agents/1"], ["For you.", f"{served.origin}/alerts"], ["For you."],
    ]  # fmt: skip
