"""The page of a handoff like a run of checks: steps fold, show their own lines, and lead to what failed."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits, shot, violations
from playwright.sync_api import Locator, Page, expect
from web_servers import Served, serving

from tasuki.fleet.handoff import documents
from tasuki.fleet.handoff.documents import COMPLETED, LACKING, QUALITY, UNFOUND
from tasuki.fleet.store import log, tables

ID = "ab" * 16
NOTES = [
    f"{QUALITY}81 of 100.", f"{LACKING}Next steps, Failed attempts.", f"{UNFOUND}1): pytest passed twice",
    f"{COMPLETED}2.",
]  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with a handoff that checks its document; nobody carries it out."""
    path = tmp_path / "document.md"
    path.write_text(f"# Handoff\n\nThe work.\n\n{documents.ADDED}\n\n- file: a.py [#3]\n")
    with serving(tmp_path) as made:
        database = made.fleet.database
        fleet_records.persona(database)
        agent = fleet_records.agent(database, persona=fleet_records.SLUG, pane="%1", adopted=True)
        fleet_records.handoff(
            database, ID, agent, step="check", created_at=time.time() - 100, file_path=str(path)
        )
        for number, step in enumerate(("await_idle", "instruct", "await_turn")):
            begins(made, step, 90 - 20 * number)
            says(made, step, f"{step} begins")
            ends(made, step, "ok", 75 - 20 * number)
            says(made, step, f"{step} is done")
        begins(made, "check", 20)
        says(made, "check", "check begins")
        yield made


def begins(served: Served, step: str, ago: float) -> None:
    """A step begins so many seconds ago."""
    values = {"handoff_id": ID, "attempt": 1, "step": step, "started_at": time.time() - ago}
    with served.fleet.database.write() as connection:
        connection.execute(sa.insert(tables.steps).values(**values))


def ends(
    served: Served, name: str, outcome: str, ago: float = 0.0, note: str = "", **of: Any
) -> None:
    """A step ends, and with it what else is true of the handoff."""
    with served.fleet.database.write() as connection:
        steps = sa.update(tables.steps).where(tables.steps.c.step == name)
        values = {"outcome": outcome, "ended_at": time.time() - ago, "note": note}
        connection.execute(steps.values(**values))
        if of:
            connection.execute(sa.update(tables.handoffs).values(**of))


def says(served: Served, step: str, text: str, kind: str = "handoff") -> None:
    """A line of the log about a step."""
    line = f"Handoff {ID[:8]}: {text}" if kind == "handoff" else f"Handoff {ID[:8]} {text}"
    with served.fleet.database.write() as connection:
        log.note(connection, kind, line, agent_id=1, handoff_id=ID, data={"step": step})
    served.fleet.changes.notify([1])


def fails(served: Served, step: str, code: str, sentence: str) -> None:
    """A step fails, and the handoff with it."""
    failure = {"code": code, "step": step, "sentence": sentence, "remedy": "Retry it."}
    ends(
        served,
        step,
        "failed",
        note=sentence,
        state="failed",
        step=step,
        failure=failure,
        finished_at=time.time(),
    )
    says(served, step, f"failed at {step}: {sentence} Retry it.", "alarm")


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that shows the handoff, connected."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto(f"/handoffs/{ID}")
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def details(page: Page, step: str) -> Locator:
    """What is inside a step."""
    return page.locator(f"#h-{ID[:8]}-{step} details")


def is_open(page: Page, step: str, open: bool = True) -> None:
    """Wait until a step is open, or folded."""
    expect(details(page, step)).to_have_js_property("open", open)


def test_done_steps_are_folded_and_the_running_one_is_open(seen: Page) -> None:
    """Each with its time and its own lines; the checks that are made are named, and no result is invented."""
    for step in ("await_idle", "instruct", "await_turn"):
        is_open(seen, step, False)
        expect(seen.locator(f"#h-{ID[:8]}-{step} .dur")).to_have_text(re.compile(r"^15[.]\d s$"))
    is_open(seen, "check")
    expect(details(seen, "check").locator(".own span")).to_have_text(["Begins"])
    expect(details(seen, "check")).to_contain_text(
        "It is checked for its sections, the facts of the thread"
    )
    expect(details(seen, "check")).not_to_contain_text("of 100")
    expect(seen.locator(f"#h-{ID[:8]}-check .dur")).to_have_text(re.compile(r"^\d+ s$"))
    counted = seen.locator(f"#h-{ID[:8]}-check .dur").inner_text()
    expect(seen.locator(f"#h-{ID[:8]}-check .dur")).not_to_have_text(counted)
    details(seen, "instruct").locator("summary").click()
    expect(details(seen, "instruct").locator(".own span")).to_have_text(["Begins", "Done"])
    expect(seen.locator(f"#h-{ID[:8]}-create details")).to_have_count(0)


def test_what_the_check_found_leads_into_the_document(served: Served, seen: Page) -> None:
    """Folded once it is done, with the count of what is to be looked at; what was added is a press away."""
    ends(served, "check", "ok", note=" ".join(NOTES), notes=NOTES, step="record")
    says(served, "check", "check is done")
    begins(served, "record", 0)
    says(served, "record", "record begins")
    is_open(seen, "check", False)
    is_open(seen, "record")
    row = seen.locator(f"#h-{ID[:8]}-check")
    expect(row).to_contain_text("2 to look at")
    expect(row).to_contain_text("Quality of the document: 81 of 100.")
    details(seen, "check").locator("summary").click()
    expect(details(seen, "check").locator(".list li")).to_have_count(3)
    details(seen, "check").get_by_role("link").last.click()

    assert seen.url.endswith("#document-added")
    expect(seen.locator("#document-added")).to_have_text("Added from the thread by tasuki")


def test_what_the_reader_opened_stays_and_what_fails_opens(served: Served, seen: Page) -> None:
    """Also where the reader had closed it while it ran; the failure leads to its line and to the document."""
    details(seen, "instruct").locator("summary").click()
    details(seen, "check").locator("summary").click()
    says(served, "check", "waits for the file")
    expect(details(seen, "check").locator(".own li")).to_have_count(2)
    is_open(seen, "check", False)
    is_open(seen, "instruct")
    fails(served, "check", "document_missing", "The document is not there.")
    is_open(seen, "check")
    is_open(seen, "instruct")
    box = seen.locator(".slot")
    expect(box.get_by_role("link", name="The document")).to_have_attribute(
        "href", f"#h-{ID[:8]}-document"
    )
    box.get_by_role("link", name="Its line in the log").click()
    line = details(seen, "check").locator(".own .failed")
    expect(line).to_contain_text("Failed at check: The document is not there.")
    assert seen.url.endswith(f"#{line.get_attribute('id')}")
    details(seen, "check").locator("summary").click()
    says(served, "check", "another line")
    expect(details(seen, "check").locator(".own li")).to_have_count(4)

    is_open(seen, "check", False)


def test_a_step_that_is_read_does_not_fold(served: Served, seen: Page) -> None:
    """It is done while the pointer rests on it: what is under it stays."""
    details(seen, "check").locator(".own").hover()
    ends(served, "check", "ok", step="record")
    says(served, "check", "check is done")
    expect(seen.locator(f"#h-{ID[:8]}-check")).to_have_class("ok")

    is_open(seen, "check")


def test_without_javascript_steps_unfold(served: Served, browsing: Browsing) -> None:
    """As details do by themselves; the list of handoffs stays short."""
    fails(served, "check", "agent_busy", "It works.")
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto(f"/handoffs/{ID}")
    is_open(page, "check")
    is_open(page, "instruct", False)
    details(page, "instruct").locator("summary").click()
    is_open(page, "instruct")
    expect(page.get_by_role("link", name="The document")).to_have_count(0)
    page.goto("/handoffs")
    expect(page.locator("ol.steps > li")).to_have_count(12)

    expect(page.locator("details")).to_have_count(0)


def test_many_lines_and_hostile_ones(served: Served, seen: Page) -> None:
    """The newest of a step are shown; markup is text, and a secret is none."""
    key = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
    for number in range(60):
        says(served, "check", f"<b>line</b> {number} {'x' * 300} {key}")
    seen.reload()
    expect(details(seen, "check").locator(".own li")).to_have_count(40)
    expect(details(seen, "check")).to_contain_text("21 older lines")
    expect(details(seen, "check").locator(".own li").last).to_contain_text("<b>line</b> 59")

    assert key not in seen.content()


def test_it_looks_well(served: Served, seen: Page) -> None:
    """Running and failed, in light and dark; nothing scrolls sideways."""
    found = portraits(seen, "steps-running")
    ends(served, "check", "ok", note=" ".join(NOTES), notes=NOTES, step="record")
    begins(served, "record", 3)
    says(served, "record", "record begins")
    fails(served, "record", "no_room", "The disk is full.")
    expect(seen.locator("main").get_by_role("alert")).to_be_visible()
    details(seen, "check").locator("summary").click()
    found += portraits(seen, "steps-failed")
    for width in (320, 380, 1440):
        seen.set_viewport_size({"width": width, "height": 900})
        shot(seen, f"steps-{width}")
        found += violations(seen)
        assert seen.evaluate("document.documentElement.scrollWidth") <= width

    assert found == []
