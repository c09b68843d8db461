"""Alerts: each event is told once, to whom the operator wants, and what could not be told is shown."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from fleets import World
from inboxes import Inbox
from waiting import retry_until

from tasuki.fleet import alerts
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # apprise imports it
ALL = "done failed needs_you threshold unacknowledged"
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""


@contextmanager
def sending(database: FleetDatabase, where: str, about: str = ALL) -> Iterator[AlertNotifier]:
    """A server's notifier, while the body runs."""
    notifier = AlertNotifier(database, "h", where, about)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.close(5)


def raised(
    database: FleetDatabase, kind: str = "failed", key: str = "k", text: str = "It failed."
) -> None:
    """Something happened."""
    with database.write() as connection:
        alerts.raise_alert(
            connection, kind, key, "Handoff of developer-con-1 failed", text, host="h"
        )


def settled(database: FleetDatabase, count: int = 1) -> list[OperatorAlert]:
    """The alerts, the oldest first, once none of them is due or being sent."""
    retry_until(
        lambda: all(
            of.state not in ("due", "sending") for of in alerts.list_newest_alerts(database, 99)
        )
    )
    found = alerts.list_newest_alerts(database, 99)[::-1]
    assert len(found) == count, found
    return found


def test_an_event_is_told_once(database: FleetDatabase, inbox: Inbox) -> None:
    """What is raised twice is one alert and one notification."""
    raised(database)
    raised(database)
    with sending(database, inbox.where):
        (of,) = settled(database)
        raised(database)

    assert (of.state, of.problem) == ("sent", "")
    assert inbox.titles == ["tasuki: Handoff of developer-con-1 failed"]


def test_what_is_undone_is_not_told(database: FleetDatabase, inbox: Inbox) -> None:
    """An alert stands and falls with the transaction of what it tells."""
    with pytest.raises(RuntimeError, match="broke off"), database.write() as connection:
        alerts.raise_alert(connection, "failed", "k", "t", "x", host="h")
        raise RuntimeError("broke off")

    assert alerts.list_newest_alerts(database, 9) == []


def test_only_what_is_wanted_is_sent(database: FleetDatabase, inbox: Inbox) -> None:
    """A kind that the settings leave out is in the list alone."""
    raised(database, "done", "a")
    raised(database, "failed", "b")
    with sending(database, inbox.where, "failed"):
        done, failed = settled(database, 2)

    assert (done.state, failed.state, len(inbox.got)) == ("quiet", "sent", 1)


def test_a_channel_that_fails_is_shown(database: FleetDatabase, inbox: Inbox) -> None:
    """An address that refuses, or is none, is told with the alert and stays the state of the channel."""
    inbox.status = 500
    raised(database)
    with sending(database, inbox.where) as notifier:
        (of,) = settled(database)
        problem = notifier.problem
    raised(database, key="other")
    with sending(database, "nothing://known"):
        _, other = settled(database, 2)

    assert (of.state, of.problem) == ("not_sent", "A notification could not be delivered.")
    assert problem == of.problem
    assert "is not an address that apprise supports" in other.problem


def test_a_server_that_was_killed_while_it_sent(database: FleetDatabase, inbox: Inbox) -> None:
    """Of what was being sent nobody knows; it is never sent again."""
    raised(database)
    of = alerts.begin_sending(database, "h", ALL.split())
    with sending(database, inbox.where):
        (found,) = settled(database)

    assert of is not None
    assert (found.state, inbox.got) == ("uncertain", [])


def test_what_waited_for_too_long_wakes_nobody(database: FleetDatabase, inbox: Inbox) -> None:
    """An alert of yesterday is in the list, and says that it came too late."""
    raised(database)
    with database.write() as connection:
        connection.execute(sa.update(tables.alerts).values(at=tables.alerts.c.at - 7200))
    with sending(database, inbox.where):
        (of,) = settled(database)

    assert (of.state, of.problem, inbox.got) == (
        "not_sent",
        "It is too old: the server was not running.",
        [],
    )


def test_another_host_sends_its_own(database: FleetDatabase, inbox: Inbox) -> None:
    """Of servers that share a database each sends what is its own."""
    with database.write() as connection:
        alerts.raise_alert(connection, "failed", "k", "t", "x", host="elsewhere")
    raised(database, key="ours")
    with sending(database, inbox.where):
        retry_until(lambda: alerts.list_newest_alerts(database, 1)[0].state == "sent")

    assert [of.state for of in alerts.list_newest_alerts(database, 9)] == ["sent", "due"]


def test_no_secret_is_told(database: FleetDatabase, inbox: Inbox) -> None:
    """Keys are replaced in the table, in the log and in what is sent."""
    raised(database, text=f"It said {KEY}")
    with sending(database, inbox.where):
        settled(database)
    with database.read() as connection:
        logged = str(connection.execute(sa.select(tables.events.c.text)).all())

    assert KEY not in str(alerts.list_newest_alerts(database, 9)) + logged + str(inbox.got)
    assert "[REDACTED:" in inbox.got[0]["message"]


def test_one_that_hangs_does_not_hold_the_end_up(tmp_path: Path, database: FleetDatabase) -> None:
    """A place that never answers: the server ends all the same, and what waits stays written down."""
    program, go = tmp_path / "notify-send", tmp_path / "go"
    os.mkfifo(go)
    program.write_text(f"#!/bin/sh\nread -r _ < {go}\n")
    program.chmod(0o700)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path}:{path}"
    notifier = AlertNotifier(database, "h", "desktop", ALL)
    try:
        for number in range(20):
            raised(database, key=str(number))
        notifier.start()
        retry_until(
            lambda: any(of.state == "sending" for of in alerts.list_newest_alerts(database, 99))
        )
        notifier.close(0.1)
        states = [of.state for of in alerts.list_newest_alerts(database, 99)]
    finally:
        os.environ["PATH"] = path
        go.open("w").close()
        notifier._thread.join(20)

    assert (states.count("sending"), states.count("due")) == (1, 19)
    assert not notifier._thread.is_alive()


def test_seen_ones_are_counted_no_more(database: FleetDatabase) -> None:
    """What the operator has seen is not new."""
    for number in range(3):
        raised(database, key=str(number))
    newest = alerts.list_newest_alerts(database, 1)[0].id
    before = alerts.count_unseen(database)
    alerts.mark_seen(database, newest - 1)

    assert (before, alerts.count_unseen(database)) == (3, 1)


# -- where they come from --------------------------------------------------------------


def kinds(world: World) -> list[tuple[str, str]]:
    """Kind and state of the alerts, the oldest first."""
    found = world.api("GET", "/api/alerts")["alerts"]
    return [(of["kind"], of["state"]) for of in reversed(found)]


def test_a_fleet_tells_what_happens(world: World, inbox: Inbox) -> None:
    """A handoff that fails, one that is done, and an agent that waits: each arrives once, also across a killed server."""
    world.kill()
    world.config(notify=inbox.where)
    world.serve()
    world.script(document=[["say", "no"]], choose=[["ask", "Which one?"], ["say", "that"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    retry_until(lambda: kinds(world) == [("failed", "sent")])
    world.kill()
    world.serve()
    world.script()
    world.api("POST", f"/api/handoffs/{id}/retry")
    world.ends(id)
    retry_until(lambda: kinds(world) == [("failed", "sent"), ("done", "sent")])

    assert inbox.titles == [
        "tasuki: Handoff of developer-con-1 failed",
        "tasuki: Handoff of developer-con-1 is done",
    ]


def test_a_server_that_is_killed_while_it_sends(world: World, inbox: Inbox) -> None:
    """kill -9 with a notification under way: the next server sends it no second time, and says that nobody knows."""
    world.kill()
    world.config(notify=inbox.where)
    world.serve()
    world.script(document=[["say", "no"]])
    inbox.held.clear()
    world.failed(world.hand_off(world.worked(world.started())))
    retry_until(lambda: inbox.got)
    world.kill()
    inbox.held.set()
    world.serve()
    world.api("POST", "/api/settings/test-notification")

    assert kinds(world) == [("failed", "uncertain")]
    assert inbox.titles == ["tasuki: Handoff of developer-con-1 failed", "tasuki: A test"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_settings_hold_at_once_and_are_kept(world: World, inbox: Inbox) -> None:
    """What is changed in the server holds without a new start, stands in the user's file, and is tried by a test."""
    changed = world.api(
        "PATCH", "/api/settings", {"notify": inbox.where, "notify_about": "failed", "context_threshold": 61}
    )  # fmt: skip
    tried = world.api("POST", "/api/settings/test-notification")
    file = (world.folder / "config.toml").read_text()

    assert changed["notify"] == ["json://…"]
    assert (changed["notify_about"], changed["context_threshold"]) == (["failed"], 61)
    assert (tried["problems"], inbox.titles) == ([], ["tasuki: A test"])
    assert 'notify_about = "failed"' in file
    assert inbox.where not in str(world.api("GET", "/api/settings"))
