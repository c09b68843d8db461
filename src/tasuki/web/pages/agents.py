"""One agent: what it does, its screen, and what the operator can do with it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet import reading
from tasuki.fleet.lost_agents import LostAgent, find_lost_agents, recover_lost_agents
from tasuki.fleet.rows import FleetHandoff
from tasuki.fleet.sending import KEYS
from tasuki.fleet.service import Fleet
from tasuki.web import answers, views
from tasuki.web.bodies import Adoption, Message, NewAgent, NewHandoff
from tasuki.web.pages import cards, forms, frame, shapes
from tasuki.web.pages.frame import Asked, Page

Form = NamedDependency[dict[str, str]]
LOG = 40
"""Lines of an agent's log on its page."""
PRESSED = ("Enter", "Escape", "Up", "Down", "Tab", "Space", "y", "n", "1", "2", "3")
assert set(PRESSED) <= set(KEYS)


@get("/agents/{id:int}", sync_to_thread=True, include_in_schema=False)
def agent_page(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int]) -> Page:
    """An agent: its card, its screen, its handoffs and what happened to it."""
    return _agent_page(request, fleet, id)


def _agent_page(request: Asked, fleet: Fleet, id: int, *, status: int = 200, **said: Any) -> Page:
    agent = reading.agent(fleet.database, id)
    card = cards.cards(fleet, [id])[0]
    handoffs = reading.handoffs(fleet.database, agent_id=id)
    personas = reading.personas(fleet.database) if not agent.persona else []
    context = {
        "text": "", "refused": "", "sent": "", **said,
        "agent": views.redacted(agent), "card": card, "live": f"agent-{id}",
        "title_of": harnesses.get(agent.harness).title,
        "handoffs": [(views.redacted(of), shapes.OF_HANDOFF[of.state], shapes.failed_step(of)) for of in handoffs],
        "events": reading.last_events(fleet.database, id, LOG),
        "screen": _screen(fleet, id) if agent.pane and agent.ended_at is None else None,
        "keys": PRESSED, "personas": personas,
        "is_own": agent.ordered_at is not None or agent.adopted,
    }  # fmt: skip
    return frame.page(request, "agent.html", status, **context)


def _screen(fleet: Fleet, id: int) -> str:
    try:
        return fleet.screen(id)
    except TasukiError as error:
        return str(error)


@get("/agents/{id:int}/screen", sync_to_thread=True, include_in_schema=False)
def screen(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int]) -> Page:
    """What its pane shows now, as a piece of its page."""
    return frame.page(request, "screen.html", screen=_screen(fleet, id), id=id)


@get("/agents/{id:int}/thread", sync_to_thread=True, include_in_schema=False)
def thread(
    request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int], entry: FromQuery[int] = 0
) -> Page:
    """Its thread, on the page of threads; from an entry on, where a document cites one."""
    agent = reading.agent(fleet.database, id)
    if not agent.session:
        raise NotPossible(f"The thread of agent {id} is not known yet: its session has not begun.")
    where = f"/threads/{agent.harness}/{quote(agent.session, safe='')}"
    return frame.moved(request, f"{where}?entry={entry}#e{entry}" if entry else where)


@post("/agents/{id:int}/send", sync_to_thread=True, include_in_schema=False)
def send(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int], form: Form) -> Page:
    """Type a text to it; the page says whether its turn began."""
    try:
        body = forms.filled(Message, {"text": form.get("text", "")})
        done = fleet.send(id, body.text)
    except TasukiError as error:
        return _agent_page(
            request, fleet, id, status=answers.status_of(error), refused=str(error), text=form.get("text", "")
        )  # fmt: skip
    why = f": {done['why']}" if done["why"] else ""
    return _agent_page(
        request, fleet, id, sent=f"{done['state'].capitalize()}{why}.", text="" if done["state"] != "refused" else body.text
    )  # fmt: skip


@post("/agents/{id:int}/keys", sync_to_thread=True, include_in_schema=False)
def keys(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int], form: Form) -> Page:
    """Press one key in its pane."""
    try:
        fleet.press(id, form.get("key", ""))
    except TasukiError as error:
        return _agent_page(request, fleet, id, status=answers.status_of(error), refused=str(error))
    return frame.moved(request, f"/agents/{id}#screen")


# -- hand off --------------------------------------------------------------------------


@get("/agents/{id:int}/handoff", sync_to_thread=True, include_in_schema=False)
def handoff_form(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int]) -> Page:
    """The form that hands an agent off."""
    card = cards.cards(fleet, _known(fleet, id))[0]
    reason = f"Context past {card.meter.mark:.0f} %" if card.meter.past else ""
    from_thread = request.query_params.get("from") == "thread"
    values = {
        "reason": "Ended" if from_thread and not reason else reason,
        "from": "thread" if from_thread else "",
    }
    return _handoff_form(request, fleet, id, values)


def _handoff_form(
    request: Asked,
    fleet: Fleet,
    id: int,
    values: dict[str, str],
    refused: str = "",
    status: int = 200,
) -> Page:
    agent = reading.agent(fleet.database, id)
    return frame.page(
        request, "handoff_form.html", status, agent=views.redacted(agent),
        card=cards.cards(fleet, [id])[0], values=values, refused=refused,
    )  # fmt: skip


@post("/agents/{id:int}/handoff", sync_to_thread=True, include_in_schema=False)
def hand_off(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int], form: Form) -> Page:
    """Hand it off; its handoff is shown then. A refusal stands beside the form."""
    _known(fleet, id)
    try:
        body = forms.filled(NewHandoff, {
            "reason": form.get("reason", "").strip(), "context": form.get("context", "").strip(),
            "force": bool(form.get("force")), "from": "thread" if form.get("from") == "thread" else "agent",
        })  # fmt: skip
        made = fleet.hand_off(
            id, reason=body.reason, context=body.context, force=body.force,
            from_thread=body.source == "thread",
        )  # fmt: skip
    except TasukiError as error:
        return _handoff_form(request, fleet, id, form, str(error), answers.status_of(error))
    return frame.moved(request, f"/handoffs/{made.id}")


@get("/agents/recover", sync_to_thread=True, include_in_schema=False)
def recover_form(request: Asked, fleet: NamedDependency[Fleet]) -> Page:
    """Asks whether lost agents are to be carried on, and shows which."""
    lost = find_lost_agents(fleet.database, fleet.panes, fleet.host)
    return _recovery(request, [(one, None) for one in lost], done=False)


@post("/agents/recover", sync_to_thread=True, include_in_schema=False)
def recover(request: Asked, fleet: NamedDependency[Fleet]) -> Page:
    """Carry lost agents on; what becomes of each is shown then."""
    return _recovery(request, recover_lost_agents(fleet, "it was lost"), done=True)


def _recovery(
    request: Asked, found: Sequence[tuple[LostAgent, FleetHandoff | None]], *, done: bool
) -> Page:
    shown = [(replace(one, agent=views.redacted(one.agent)), made) for one, made in found]
    return frame.page(request, "recover_form.html", found=shown, done=done)


def _known(fleet: Fleet, id: int) -> list[int]:
    """The id of an agent that there is. Raises AgentNotFound."""
    return [reading.agent(fleet.database, id).id]


# -- stop, start, adopt ----------------------------------------------------------------


@get("/agents/{id:int}/stop", sync_to_thread=True, include_in_schema=False)
def stop_form(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int]) -> Page:
    """Asks whether an agent is to be ended."""
    agent = reading.agent(fleet.database, id)
    return frame.page(request, "stop_form.html", agent=views.redacted(agent), refused="")


@post("/agents/{id:int}/stop", sync_to_thread=True, include_in_schema=False)
def stop(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[int]) -> Page:
    """End it in its own words."""
    try:
        fleet.stop_agent(id)
    except TasukiError as error:
        agent = views.redacted(reading.agent(fleet.database, id))
        return frame.page(
            request, "stop_form.html", answers.status_of(error), agent=agent, refused=str(error)
        )
    return frame.moved(request, f"/agents/{id}")


@get("/agents/new", sync_to_thread=True, include_in_schema=False)
def new_agent(request: Asked, fleet: NamedDependency[Fleet], persona: FromQuery[str] = "") -> Page:
    """The forms that start an agent, and adopt one."""
    return _new_agent(request, fleet, {"persona": persona})


def _new_agent(
    request: Asked,
    fleet: Fleet,
    values: dict[str, str],
    *,
    refused: str = "",
    adopting: bool = False,
    status: int = 200,
) -> Page:
    recent = reading.agents(fleet.database, limit=200)
    return frame.page(
        request, "new_agent.html", status, values=values, refused=refused, adopting=adopting,
        personas=reading.personas(fleet.database),
        folders=sorted({agent.cwd for agent in recent if agent.cwd})[:50],
        harnesses=[(name, harnesses.get(name).title) for name in _startable()],
        anonymous=[a for a in map(views.redacted, recent) if a.ended_at is None and not a.persona and a.pane],
    )  # fmt: skip


def _startable() -> list[str]:
    return [n for n in harnesses.names() if harnesses.control(harnesses.get(n)) is not None]


@post("/agents/new", sync_to_thread=True, include_in_schema=False)
def start_agent(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """Start an agent in a tmux window."""
    names = ("cwd", "persona", "harness", "model", "permission", "goal")
    try:
        body = forms.filled(NewAgent, {name: form.get(name, "").strip() for name in names})
        if not body.cwd.startswith("/"):
            raise NotPossible("The folder must be a whole path: it begins with /.")
        agent = fleet.start_agent(
            harness=body.harness, persona=body.persona, cwd=body.cwd, model=body.model,
            permission=body.permission, goal=body.goal,
        )  # fmt: skip
    except TasukiError as error:
        return _new_agent(request, fleet, form, refused=str(error), status=answers.status_of(error))
    return frame.moved(request, f"/agents/{agent.id}")


@post("/agents/adopt", sync_to_thread=True, include_in_schema=False)
def adopt(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """Take on an agent that runs in a pane already."""
    names = ("pane", "harness", "persona", "session")
    try:
        body = forms.filled(Adoption, {name: form.get(name, "").strip() for name in names})
        agent = fleet.adopt(
            pane=body.pane, harness=body.harness, persona=body.persona, session=body.session
        )
    except TasukiError as error:
        return _new_agent(
            request, fleet, form, refused=str(error), adopting=True, status=answers.status_of(error)
        )
    return frame.moved(request, f"/agents/{agent.id}")


HANDLERS = (
    agent_page, screen, thread, send, keys, handoff_form, hand_off, stop_form, stop, new_agent,
    start_agent, adopt, recover_form, recover,
)  # fmt: skip
