"""Undo: a note says what was done, and puts it back, in this tab, once, and only what nobody changed since."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, shot, violations
from playwright.sync_api import Page, expect
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.agents import goal_queue, goal_templates
from tasuki.fleet.orders.agents import mute_agent
from tasuki.fleet.orders.bodies import NewTemplate
from tasuki.fleet.store import queries, tables
from tasuki.web.views import undo

SLUG = "developer-con-1"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with two agents, of which the first has goals and the second is muted; a template, alerts."""
    with serving(tmp_path) as made:
        made.fleet.notifier.close(5)
        database = made.fleet.database
        for number in (1, 2):
            fleet_records.persona(database, f"developer-con-{number}")
            fleet_records.agent(
                database, persona=f"developer-con-{number}", cwd="/src/shop", session=f"s{number}", pane=f"%{number}",
                adopted=True, started_at=time.time() - number, state="busy", state_at=time.time(),
            )  # fmt: skip
        mute_agent(made.fleet, 2, "2h")
        for text in ("First", "Second", "Third"):
            goal_queue.add_goal(database, SLUG, text)
        goal_templates.add_template(database, NewTemplate("Fix an issue", "Fix {issue}"))
        goal_templates.note_use(database, 1)
        with database.write() as connection:
            for number in range(3):
                alerts.raise_alert(
                    connection, "needs_you", f"k{number}", "Con waits", "?", host="x", agent_id=1
                )
        alerts.mark_seen(database, 1)
        yield made


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that is signed in and shows the fleet, connected."""
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def rows(served: Served, table: sa.Table) -> list[tuple[object, ...]]:
    """All rows of a table."""
    with served.fleet.database.read() as connection:
        return [tuple(row) for row in connection.execute(sa.select(table))]


def muted(served: Served, agent: int) -> float | None:
    """Until when an agent is muted."""
    return queries.load_agent(served.fleet.database, agent).muted_until


def mute(page: Page, number: int, choice: str) -> None:
    """Mute an agent on its card, or unmute it."""
    page.locator(f"#a{number}-mute").click()
    page.get_by_role("dialog").get_by_role("button", name=choice, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_mute_is_undone_where_the_page_stays(served: Served, seen: Page) -> None:
    """The note has a button, and z; it says what is true then."""
    before = muted(served, 2)
    mute(seen, 1, "For 1 hour")
    note = seen.locator("#notes")
    expect(note).to_contain_text(re.compile("developer-con-1 is muted until"))
    note.get_by_role("button", name="Undo").click()
    expect(note).to_contain_text("developer-con-1 is not muted, as before.")
    expect(note.get_by_role("button", name="Undo")).to_have_count(0)
    assert muted(served, 1) is None
    mute(seen, 2, "Unmute")
    expect(note).to_contain_text("no longer muted")
    assert [] == violations(seen)
    seen.keyboard.press("z")
    expect(note).to_contain_text("as before")

    assert muted(served, 2) == before
    assert seen.url.endswith("/")


def test_what_changed_since_stays(served: Served, seen: Page, browsing: Browsing) -> None:
    """Another tab muted it anew: its order stays, and a sentence says so. Each note undoes its own order, once."""
    browsing.expect("status of 410")
    other = seen.context.new_page()
    other.goto("/")
    mute(seen, 1, "For 1 hour")
    expect(other.locator("#notes .note")).to_have_count(0)
    expect(other.locator("#agent-1")).to_contain_text("Muted until")
    mute(other, 1, "Until it is unmuted")
    newest = muted(served, 1)
    seen.bring_to_front()
    seen.keyboard.press("z")
    expect(seen.locator(".toast")).to_contain_text("was muted or unmuted again since: that stays.")
    expect(seen.locator("#notes .note")).to_have_count(0)

    assert muted(served, 1) == newest
    assert newest is not None


def test_a_refused_undo_can_be_pressed_again(
    served: Served, seen: Page, browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is full: the note and its button stay."""
    browsing.expect("status of 400")
    seen.goto(f"/personas/{SLUG}#queue")
    seen.get_by_role("button", name="Remove goal 2").click()
    undo_button = seen.locator("#notes").get_by_role("button", name="Undo")
    with monkeypatch.context() as full:
        full.setattr(goal_queue, "MOST_WAITING", 0)
        undo_button.click()
        expect(seen.locator(".toast")).to_contain_text("Remove some first")
    undo_button.click()
    expect(seen.locator(".goals .words")).to_have_text(["First", "Second", "Third"])


def test_a_note_goes_by_itself(seen: Page) -> None:
    """After ten seconds, not while a pointer rests on it; or by its ×."""
    seen.clock.install()
    mute(seen, 1, "For 1 hour")
    note = seen.locator("#notes .note")
    note.hover()
    seen.clock.run_for(11_000)
    expect(note).to_be_visible()
    seen.mouse.move(600, 10)
    seen.clock.run_for(11_000)
    expect(note).to_have_count(0)
    mute(seen, 1, "Unmute")
    note.get_by_role("button", name="Dismiss").click()
    expect(note).to_have_count(0)


def test_a_goal_comes_back_at_its_place(served: Served, seen: Page) -> None:
    """Under its id, also where others moved meanwhile; a changed one reads as before."""
    before = rows(served, tables.queued_goals)
    seen.goto(f"/personas/{SLUG}#queue")
    seen.get_by_role("button", name="Remove goal 2").click()
    expect(seen.locator("#notes")).to_contain_text("Goal removed: Second")
    seen.locator("#notes").get_by_role("button", name="Undo").click()
    expect(seen.locator(".goals .words")).to_have_text(["First", "Second", "Third"])
    assert rows(served, tables.queued_goals) == before
    seen.get_by_role("button", name="Remove goal 2").click()
    expect(seen.locator(".goals .words")).to_have_text(["First", "Third"])
    goal_queue.order_goal(served.fleet.database, SLUG, 3, "up")
    seen.locator("#notes").get_by_role("button", name="Undo").click()
    expect(seen.locator(".goals .words")).to_have_text(["Third", "First", "Second"])
    seen.locator("#edit-goal-1 summary").click()
    seen.locator("#goal-text-1").fill("First of all")
    seen.locator("#edit-goal-1").get_by_role("button", name="Save").click()
    expect(seen.locator("#notes")).to_contain_text("was changed")
    seen.keyboard.press("z")
    expect(seen.locator(".goals .words")).to_have_text(["Third", "First", "Second"])


def test_a_template_and_seen_alerts_come_back(served: Served, seen: Page) -> None:
    """The template under its id, with when it was used; alerts as they were, also those seen before."""
    templates, shown = rows(served, tables.goal_templates), rows(served, tables.alerts)
    seen.goto("/templates/1/edit")
    seen.get_by_role("button", name="Remove").click()
    expect(seen.locator("#notes")).to_contain_text("Template Fix an issue was removed.")
    assert rows(served, tables.goal_templates) == []
    seen.locator("#notes").get_by_role("button", name="Undo").click()
    expect(seen.locator("#notes")).to_contain_text("Template Fix an issue is back.")
    assert rows(served, tables.goal_templates) == templates
    seen.goto("/")
    seen.get_by_role("button", name="Mark all as read").click()
    expect(seen.locator("#notes")).to_contain_text("You have seen 2 alerts.")
    expect(seen.locator("#alerts-link")).to_have_text("Alerts")
    seen.keyboard.press("z")
    expect(seen.locator("#alerts-link")).to_have_text("2 new alerts")

    assert rows(served, tables.alerts) == shown


def test_without_javascript_the_next_page_offers_it(served: Served, browsing: Browsing) -> None:
    """As a form, which works once; a page that was reloaded says so."""
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("#notes")).to_contain_text("You have seen 2 alerts.")
    address = page.url
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#notes")).to_contain_text("2 alerts count as new again.")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert page.url.count("undo=") == 1
    page.goto(address)
    expect(page.locator("#notes")).to_have_text("")
    page.goto("/agents/1/mute")
    page.get_by_role("button", name="For 1 hour").click()
    mute_agent(served.fleet, 1, "2h")
    page.get_by_role("button", name="Undo").click()

    expect(page.locator("#notes")).to_contain_text("was muted or unmuted again since")


def test_orders_for_agents_offer_none(served: Served, browsing: Browsing) -> None:
    """What is typed, sent or stopped cannot be taken back, and nothing says that it can."""
    browsing.expect("status of 4")
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/agents/1")
    page.locator("#text").fill("Go on")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#send .box")).to_be_visible()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    page.goto("/agents/1/stop")
    page.locator("form button.pri, form button").first.click()

    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_notes_look_well(served: Served, seen: Page) -> None:
    """In light and dark, beside a toast; nothing scrolls sideways."""
    found = []
    for width in (320, 380, 1440):
        for scheme in ("light", "dark"):
            seen.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            seen.set_viewport_size({"width": width, "height": 900})
            mute_agent(served.fleet, 1, "off")
            seen.goto("/")
            mute(seen, 1, "For 1 hour")
            if scheme == "dark":
                with served.fleet.database.write() as connection:
                    alerts.raise_alert(
                        connection,
                        "needs_you",
                        f"w{width}",
                        "Con waits",
                        "Which one?",
                        host="x",
                        agent_id=2 if width < 0 else None,
                    )
                served.fleet.changes.notify([2])
                expect(seen.locator(".toast").last).to_be_visible()
                note, toast = (
                    seen.locator(".note").bounding_box(),
                    seen.locator(".toast").last.bounding_box(),
                )
                assert note
                assert toast
                assert (
                    toast["y"] + toast["height"] <= note["y"]
                    or toast["x"] >= note["x"] + note["width"]
                )
            page_shot = shot(seen, f"undo-{scheme}-{width}")
            assert page_shot.is_file()
            found += violations(seen)
            assert seen.evaluate("document.documentElement.scrollWidth") <= width

    assert found == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/", "/?undo=k"), ("/?look=list&undo=old#queue", "/?look=list&undo=k#queue"),
        ("/personas/x?q=%2B&a=", "/personas/x?q=%2B&a=&undo=k"),
    ],
)  # fmt: skip
def test_the_key_replaces_an_older_one(address: str, expected: str) -> None:
    """In the address of the next page."""
    assert undo.add_key(address, "k") == expected
