"""What can be done with an agent: decided here for its card, its row in the list and its own page."""

from typing import Literal

from msgspec import Struct

from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.web.views.display import StateBadge

Place = Literal["card", "row", "page"]
"""Where an action is offered; a row has room for one, without the choices of a question."""
Step = Literal["open", "follow", "hand off", "from thread", "thread", ""]
"""What is next for an agent: its handoff, or one of it, or its thread; nothing where it has none."""


class AgentAction(Struct, frozen=True):
    """One action: a link, or an order that is given by a button."""

    key: str
    """What its element is called on a page: `do` is the first one, where the focus stays."""
    word: str
    href: str
    is_main: bool = False
    """It is what the agent needs."""
    opens_form: bool = False
    """It opens a form over the page."""
    is_handoff: bool = False
    """The key `h` does the same."""
    is_order: bool = False
    """It is sent with a button, and asks nothing."""
    hint: str = ""


class ActionFacts(Struct, frozen=True, kw_only=True):
    """What decides which actions an agent is offered with."""

    id: int
    shown: StateBadge
    can: Step
    handoff: str = ""
    """The id of the handoff that matters now."""
    is_full: bool = False
    """Its context is past the threshold."""
    question: AgentQuestion | None = None
    """What it asks, where that can be answered here."""
    is_own: bool = False
    """tasuki started or adopted it, and it has not ended."""


def list_actions(facts: ActionFacts, place: Place) -> tuple[AgentAction, ...]:
    """List the actions that are offered in a place, in their order."""
    actions = _list_next(facts, place)
    if place == "row":
        return tuple(action for action in actions if action.key == "do")
    if facts.shown.word == "Lost":
        actions.append(AgentAction("clear", "Clear", f"/agents/{facts.id}/clear", is_order=True, hint="It counts as ended; its thread stays"))  # fmt: skip
    if place == "page" and _can_stop(facts):
        actions.append(AgentAction("stop", "Stop", f"/agents/{facts.id}/stop", opens_form=True))
    return tuple(actions)


def _list_next(facts: ActionFacts, place: Place) -> list[AgentAction]:
    page, handoff = f"/agents/{facts.id}", f"/handoffs/{facts.handoff}"
    if facts.can == "open":
        word = "Open" if place == "row" else "Open handoff"
        return [AgentAction("do", word, handoff, is_main=True)]
    if facts.can == "follow":
        return [AgentAction("do", "Follow", handoff)]
    if facts.can == "hand off" and facts.shown.icon == "wait" and place != "page":
        return [_build_handoff(facts, "hand"), _build_answer(facts, place)]
    if facts.can in ("hand off", "from thread"):
        return [_build_handoff(facts, "do")]
    return [AgentAction("do", "Read thread", f"{page}/thread")] if facts.can == "thread" else []


def _build_handoff(facts: ActionFacts, key: str) -> AgentAction:
    """Build the link to the form of a handoff: main where the context is full, or the agent is lost."""
    is_from_thread = facts.can == "from thread"
    is_main = facts.shown.icon == "ask" if is_from_thread else facts.is_full and key == "do"
    query = "?from=thread" if is_from_thread else ""
    href = f"/agents/{facts.id}/handoff{query}"
    return AgentAction(key, "Hand off", href, is_main, opens_form=True, is_handoff=True)


def _build_answer(facts: ActionFacts, place: Place) -> AgentAction:
    """Build the link to where an agent is answered; a card has the choices of its question itself."""
    page = f"/agents/{facts.id}"
    if not facts.question or facts.question.obstacle:
        return AgentAction("do", "Answer", f"{page}#screen", is_main=True)
    if place == "row":
        return AgentAction("do", "Answer", page, is_main=True)
    return AgentAction("do", "Terminal", f"{page}#screen")


def _can_stop(facts: ActionFacts) -> bool:
    if facts.shown.icon in ("end", "fail") or facts.shown.word == "Lost" or facts.can == "open":
        return False
    return facts.can not in ("thread", "") or facts.is_own
