"""A handoff that fails, in a browser: at each step, with each failure, and what mends it by a click."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator
from fleets import World
from playwright.sync_api import Page, expect
from selection import by_default
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.handoff import workflow
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.failures import REMEDIES, UNCERTAIN_CODES
from tasuki.web.views.display import STEP_WORDS

ID = "ab" * 16


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one handoff under way; nobody carries it out."""
    with serving(tmp_path) as made:
        database = made.fleet.database
        fleet_records.persona(database)
        agent = fleet_records.agent(database, persona=fleet_records.SLUG, pane="%1", adopted=True)
        fleet_records.handoff(database, ID, agent, state="running", step="await_idle")
        yield made


def fails(served: Served, step: str, code: str, sentence: str) -> None:
    """The handoff fails at a step, as the server would write that down."""
    state = "uncertain" if code in UNCERTAIN_CODES else "failed"
    failure = {"code": code, "step": step, "sentence": sentence, "remedy": REMEDIES[code].format(agent=1)}  # fmt: skip
    handoffs, steps, now = tables.handoffs, tables.steps, time.time()
    with served.fleet.database.write() as connection:
        connection.execute(sa.delete(steps))
        connection.execute(
            sa.insert(steps).values(
                handoff_id=ID, attempt=1, step=step, started_at=now - 2, ended_at=now, outcome="failed", note=sentence
            )
        )  # fmt: skip
        connection.execute(
            sa.update(handoffs).values(
                state=state, step=step, failure=failure, finished_at=now, from_thread=step == "write",
                recorded_at=now if step in workflow.SUCCESSOR_STEPS else None,
            )
        )  # fmt: skip
        log.note(connection, "alarm", sentence, agent_id=1, handoff_id=ID)
    served.fleet.changes.notify([1])


@pytest.mark.long
def test_each_step_that_fails_is_shown_under_the_open_page(
    served: Served, browsing: Browsing
) -> None:
    """Whichever step fails: the open page marks it, says the sentence, what to do, and offers what the API takes."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto(f"/handoffs/{ID}")
    expect(page.locator("#live-word")).to_have_text("Live")
    for number, step in enumerate((*workflow.ALL_STEPS, "write")):
        sentence = f"Trial {number} did not work."
        if step == "write":
            fails(served, step, "unexpected", "Now from the thread.")
            expect(page.locator("main").get_by_role("alert")).to_contain_text("Now from the thread")
            page.reload()
        fails(served, step, "unexpected", sentence)
        expect(page.locator("main").get_by_role("alert")).to_contain_text(sentence)
        expect(page.locator("li.bad b")).to_have_text(STEP_WORDS[step][0])
        expect(page.get_by_role("button", name="Retry")).to_be_enabled()


@pytest.mark.long
def test_each_failure_says_what_can_be_done(served: Served, browsing: Browsing) -> None:
    """Every named failure shows its own remedy, on the page of the handoff and on the card of its agent."""
    page = operator(browsing.page(served.origin), served.link)
    fleet = page.context.new_page()
    fleet.goto("/")
    page.goto(f"/handoffs/{ID}")
    for shown in (page, fleet):
        expect(shown.locator("#live-word")).to_have_text("Live")
    for number, code in enumerate(REMEDIES):
        sentence = f"Trial {number}: {code}."
        fails(served, "check", code, sentence)
        alert = page.locator("main").get_by_role("alert")
        expect(alert).to_contain_text(f"{sentence} {REMEDIES[code].format(agent=1)} ({code})")
        expect(fleet.locator("#agent-1")).to_contain_text(sentence)
        word = "Handoff uncertain" if code in UNCERTAIN_CODES else "Handoff failed"
        expect(fleet.locator("#agent-1 .st")).to_have_text(word)


# -- real ones, mended by a click ------------------------------------------------------


def escape(world: World, agent: int) -> None:
    """The operator breaks the turn off that writes the document."""
    world.script(document=[["sleep", 60]])
    world.hand_off(agent)
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "Escape")


def cannot_start(world: World, agent: int) -> None:
    """The program of the successor is not there."""
    hold = world.folder / "go"
    world.script(document=[["document", "{path}"], ["wait_for", str(hold)], ["say", "written"]])
    world.hand_off(agent)
    retry_until(lambda: world.seen("wrote"), 20)
    program = world.folder / "bin" / "claude"
    shutil.move(program, program.with_name("away"))
    hold.touch()


def ignores_enter(world: World, agent: int) -> None:
    """Nothing shows whether the instruction was taken."""
    world.rules({"match": "Write a handoff document", "ignore_enter": 9, "do": []})
    world.hand_off(agent)


def says_nothing(world: World, agent: int) -> None:
    """The successor works on without saying the line."""
    world.script(prompt=[["say", "Sure, I will."]])
    world.hand_off(agent)


def mended(world: World) -> None:
    """What hindered is away."""
    away = world.folder / "bin" / "away"
    if away.exists():
        shutil.move(away, away.with_name("claude"))
    world.script()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("breaks", "step", "button"),
    by_default(
        [
            (escape, "Waiting for the end of its turn", "Retry"),
            (cannot_start, "Creating the successor", "Retry"),
            (ignores_enter, "Asking for the document", "Cancel"),
            (says_nothing, "Waiting for its confirmation", "Skip"),
        ],
        (cannot_start, "Creating the successor", "Retry"),
    ),
    ids=lambda it: getattr(it, "__name__", it),
)
def test_a_real_failure_is_mended_by_a_click(
    world: World,
    browsing: Browsing,
    breaks: Callable[[World, int], None],
    step: str,
    button: str,
) -> None:
    """An agent that fails a step is seen on its card, opened, mended, and the handoff ends as was asked."""
    agent = world.worked(world.started())
    page: Page = operator(browsing.page(world.origin()), world.link())
    breaks(world, agent)
    expect(page.locator(f"#agent-{agent}")).to_contain_text("Open handoff", timeout=40_000)
    page.locator(f"#agent-{agent}").get_by_role("link", name="Open handoff").click()
    expect(page.locator("li.bad b")).to_have_text(step)
    mended(world)
    page.get_by_role("button", name=button, exact=True).click()
    end = {"Retry": "Confirmed", "Cancel": "Cancelled", "Skip": "Done"}[button]
    expect(page.locator("article header .st")).to_have_text(end, timeout=40_000)
