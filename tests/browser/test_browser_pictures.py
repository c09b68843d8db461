"""Pictures of every page, as artefacts of the run: four widths, light and dark, with 0, 9, 30 and 200 agents.

They are there to be looked at. What can be checked is checked on the way: nothing scrolls sideways, no page fails.
"""

import time
from pathlib import Path
from typing import Any

import fleet_records
import pytest
from browser import Browsing, Scheme, operator, shot, violations
from playwright.sync_api import Page, expect
from selection import by_default
from web_servers import Served, serving

from tasuki.fleet import alerts
from tasuki.fleet.store import log
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.questions import dump_question

WIDTHS = (1440, 1024, 380, 320)
CHECKED = (1440, 380)
"""Widths at which axe-core looks, too."""
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
OF_MANY = {
    "fleet": "/", "list": "/?look=list", "by-project": "/?look=list&by=project&sort=context", "figures": "/figures",
    "lineage": "/lineage", "personas": "/personas", "handoffs": "/handoffs", "alerts": "/alerts",
}  # fmt: skip
OF_ONE = {
    "agent-waiting": "/agents/3", "agent-busy": "/agents/2", "agent-ended": "/agents/8", "changes": "/agents/2/changes",
    "handoff-form": "/agents/2/handoff", "bulk": "/bulk?do=send&id=2&id=4", "start": "/agents/new",
    "handoff-failed": f"/handoffs/{'f0' * 16}", "handoff-done": f"/handoffs/{'d0' * 16}", "drafts": "/briefs",
    "threads": "/threads", "persona": "/personas/tester-ada-1", "settings": "/settings", "keys": "/keys",
    "palette": "/palette", "hosts": "/hosts", "nothing": "/nothing-here",
}  # fmt: skip
STATES = ("idle", "busy", "waiting", "busy", "limited", "compacting", "idle", "ended", "lost")
NAMES = ("con", "ada", "björn", "mi")
WORDS = "Two of nine menus are left. Next I would start on the export, which touches the files of the shop."
QUESTION = AgentQuestion(
    mark="0" * 16, text="Allow Bash?", words="Run migration down", detail="alembic downgrade -1 && ./scripts/migrate --down",
    kind="permission", asked_at=time.time() - 600, is_read=True,
    choices=(
        QuestionChoice("1", "Yes"),
        QuestionChoice("2", "Yes, and don't ask again for alembic commands in /src/shop"),
        QuestionChoice("3", "No, and tell Claude what to do differently"),
    ),
)  # fmt: skip


def populate(served: Served, count: int) -> None:
    """Agents in every state; with some also handoffs, alerts and a log."""
    database = served.fleet.database
    for number in range(1, count + 1):
        slug = f"{'tester' if number % 3 else 'developer'}-{NAMES[number % 4]}-{number}"
        state = STATES[(number - 1) % 9] if number <= 30 else ("idle", "busy")[number % 2]
        values: dict[str, Any] = {}
        if state in ("ended", "lost"):
            values = {"ended_at": time.time() - 900, "end_reason": "it was stopped"}
        if state == "waiting":
            values = {"question": dump_question(QUESTION), "waiting_for": QUESTION.text}
        fleet_records.persona(database, slug)
        fleet_records.agent(
            database, persona=slug, cwd=f"/src/{('shop', 'menus', 'export-of-everything')[number % 3]}", state=state,
            session=f"5e55{number:04}", context_used=number * 13 % 100, context_tokens=number * 900,
            context_window=200_000, state_at=time.time() - 60 * number, started_at=time.time() - 7200 - number,
            last_words=WORDS[: 20 + number * 7 % 80], pane=f"%{number}", adopted=True, **values,
        )  # fmt: skip
    if count < 9:
        return
    fleet_records.handoff(database, "f0" * 16, 4, state="failed", step="create", persona="tester-con-4", reason="Context past 80 %", finished_at=time.time() - 60, failure={
        "code": "start_failed", "step": "create", "sentence": "The program of the successor did not start.", "remedy": "Look at the window and retry.",
    })  # fmt: skip
    fleet_records.handoff(database, "d0" * 16, 8, state="done", step="acknowledge", persona="tester-con-8", finished_at=time.time() - 900)  # fmt: skip
    with database.write() as connection:
        for agent in range(1, 9):
            for text in ("Run the tests", "All 212 pass", "Fix the menu of the shop"):
                log.note(connection, "prompt", text, agent_id=agent)
        alerts.raise_alert(
            connection,
            "needs_you",
            "k",
            "tester-mi-3 waits for you",
            QUESTION.text,
            host="h",
            agent_id=3,
        )
        alerts.raise_alert(connection, "failed", "k2", "Handoff of tester-con-4 failed", "The program of the successor did not start.", host="h", handoff_id="f0" * 16)  # fmt: skip


@pytest.mark.parametrize("count", [0, 9, 30, 200])
@pytest.mark.parametrize("scheme", by_default(SCHEMES, "light"))
def test_pictures_of_every_page(
    tmp_path: Path, browsing: Browsing, count: int, scheme: Scheme
) -> None:
    """Every page at every width; none scrolls sideways."""
    browsing.expect("status of 404")
    with serving(tmp_path) as served:
        populate(served, count)
        page = operator(browsing.page(served.origin, scheme=scheme, still=True), served.link)
        found = picture(page, OF_MANY, f"{count}", scheme)
        if count == 30:
            found += picture(page, OF_ONE, f"{count}", scheme)

    assert [] == found


def picture(page: Page, addresses: dict[str, str], prefix: str, scheme: Scheme) -> list[str]:
    """Keep a picture of each address at each width; which of them are too wide."""
    wide = []
    for name, address in addresses.items():
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(address)
        expect(page.locator("main")).to_be_visible()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            shot(page, f"pages/{prefix}-agents/{name}-{width}-{scheme}")
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(f"{name} at {width}")
            if width in CHECKED:
                wide += [f"{name} at {width}: {one}" for one in violations(page)]
    return wide
