"""What is offered for an agent on its card, in its row and on its page: one decision for each state."""

import time
from pathlib import Path
from typing import Any

import fleet_records
import pytest
from visitors import Visitor
from web_servers import serving

from tasuki.fleet.store.models import AgentQuestion
from tasuki.web.pages.agent.actions import ActionFacts, AgentAction, Place, list_actions
from tasuki.web.views.display import StateBadge

QUESTION = AgentQuestion("May I?", "m1", 0.0, is_read=True)
HAND, THREAD, STOP, CLEAR = "Hand off /agents/7/handoff", "Read thread /agents/7/thread", "Stop /agents/7/stop", "Clear /agents/7/clear"  # fmt: skip
FROM_THREAD = f"{HAND}?from=thread"
OPEN, FOLLOW = "Open handoff /handoffs/h", "Follow /handoffs/h"
FULL: dict[str, Any] = {"is_full": True}
ASKED: dict[str, Any] = {"question": QUESTION}
OWN: dict[str, Any] = {"is_own": True}


def put(action: AgentAction) -> str:
    """An action in a line; with a star where it is the main one."""
    return f"{'*' if action.is_main else ''}{action.word} {action.href}"


@pytest.mark.parametrize(
    ("can", "icon", "word", "more", "card", "row", "page"),
    [
        ("open", "fail", "Handoff failed", {}, [f"*{OPEN}"], "*Open /handoffs/h", [f"*{OPEN}"]),
        ("open", "ask", "Handoff uncertain", {}, [f"*{OPEN}"], "*Open /handoffs/h", [f"*{OPEN}"]),
        ("follow", "hand", "Handing off", OWN, [FOLLOW], FOLLOW, [FOLLOW, STOP]),
        ("hand off", "busy", "Busy", {}, [HAND], HAND, [HAND, STOP]),
        ("hand off", "busy", "Busy", FULL, [f"*{HAND}"], f"*{HAND}", [f"*{HAND}", STOP]),
        ("hand off", "past", "Past threshold", FULL, [f"*{HAND}"], f"*{HAND}", [f"*{HAND}", STOP]),
        ("hand off", "ask", "Stuck", {}, [HAND], HAND, [HAND, STOP]),
        ("hand off", "ask", "At a usage limit", FULL, [f"*{HAND}"], f"*{HAND}", [f"*{HAND}", STOP]),
        ("hand off", "wait", "Waiting for you", {}, [HAND, "*Answer /agents/7#screen"], "*Answer /agents/7#screen", [HAND, STOP]),
        ("hand off", "wait", "Waiting for you", ASKED, [HAND, "Terminal /agents/7#screen"], "*Answer /agents/7", [HAND, STOP]),
        ("hand off", "wait", "Waiting for you", FULL, [HAND, "*Answer /agents/7#screen"], "*Answer /agents/7#screen", [f"*{HAND}", STOP]),
        ("from thread", "end", "Ended", FULL, [FROM_THREAD], FROM_THREAD, [FROM_THREAD]),
        ("from thread", "ask", "Lost", {}, [f"*{FROM_THREAD}", CLEAR], f"*{FROM_THREAD}", [f"*{FROM_THREAD}", CLEAR]),
        ("thread", "ask", "Lost", {}, [THREAD, CLEAR], THREAD, [THREAD, CLEAR]),
        ("thread", "end", "Handed off", {}, [THREAD], THREAD, [THREAD]),
        ("thread", "wait", "Waiting for you", ASKED | OWN, [THREAD], THREAD, [THREAD, STOP]),
        ("thread", "busy", "Busy", {}, [THREAD], THREAD, [THREAD]),
        ("thread", "todo", "Host away", OWN, [THREAD], THREAD, [THREAD, STOP]),
        ("", "now", "Starting", OWN, [], "", [STOP]),
        ("", "ask", "Lost", {}, [CLEAR], "", [CLEAR]),
        ("", "busy", "Busy", {}, [], "", []),
    ],
)  # fmt: skip
def test_each_state_has_its_actions(
    can: Any, icon: str, word: str, more: dict[str, Any], card: list[str], row: str, page: list[str]
) -> None:
    """A card has all but *Stop*, a row the first one alone, a page what does not lead to itself."""
    facts = ActionFacts(id=7, shown=StateBadge(icon, word, ""), can=can, handoff="h", **more)
    places: dict[Place, list[str]] = {"card": card, "row": [row] if row else [], "page": page}

    assert places == {place: [put(one) for one in list_actions(facts, place)] for place in places}


def test_the_pages_offer_what_was_decided(tmp_path: Path) -> None:
    """With ids by which the focus stays, the form over the page, and the mark for the key `h`."""
    with serving(tmp_path) as served:
        database, now = served.fleet.database, time.time()
        fleet_records.persona(database, "developer-con-1")
        lost = fleet_records.agent(
            database, persona="developer-con-1", session="s", state="lost", state_at=now, ended_at=now, adopted=True,
            host=served.fleet.host,
        )  # fmt: skip
        visitor = Visitor(served)
        pages = {place: visitor.page(address) for place, address in (("card", "/"), ("row", "/?look=list"), ("page", f"/agents/{lost}"))}  # fmt: skip

    name = {"card": f"a{lost}", "row": f"a{lost}", "page": "now"}
    for place, page in pages.items():
        look = "link pri" if place == "row" else "btn pri"
        link = f'<a class="{look}" id="{name[place]}-do" data-hand href="/agents/{lost}/handoff?from=thread" data-form>Hand off</a>'
        assert link in page
        order = f'<form method="post" action="/agents/{lost}/clear"><button class="btn" id="{name[place]}-clear" title='
        assert (place != "row") == (order in page)
