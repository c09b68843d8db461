"""What becomes of the agents of a host that is given up: whether their threads are in the database."""

from msgspec import Struct

from tasuki.fleet.exchange.thread_copies import load_stored
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.views import display

MOST_AGENTS = 200


class StrandedAgent(Struct, frozen=True):
    """An agent of a host that is gone. `copied_at` is when its thread was stored; None for never."""

    agent: FleetAgent
    copied_at: float | None


def list_living_agents(database: FleetDatabase, host_id: str) -> list[StrandedAgent]:
    """List the agents of a host that would be lost with it."""
    living = queries.list_agents(database, ended=False, host=host_id, limit=MOST_AGENTS)
    return [_build_stranded(database, agent) for agent in living]


def find_stranded_agents(database: FleetDatabase, host_id: str) -> list[StrandedAgent]:
    """Find the lost agents of a host that have a persona and no handoff that goes on."""
    ended = queries.list_agents(database, ended=True, host=host_id, limit=MOST_AGENTS)
    stranded = []
    for agent in (one for one in ended if one.state == "lost" and one.persona):
        own = queries.list_handoffs(database, agent_id=agent.id, fork=False)
        if not any(handoff.state in ("running", "done") for handoff in own):
            stranded.append(_build_stranded(database, agent))
    return stranded


def _build_stranded(database: FleetDatabase, agent: FleetAgent) -> StrandedAgent:
    stored = load_stored(database, agent.id)
    return StrandedAgent(display.redact_row(agent), stored.record.kept if stored else None)
