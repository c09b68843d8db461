"""A fork of a real agent: it begins with what the first one knew, and both go on."""

from collections.abc import Iterator

import pytest
from fakes.model_server import ModelRule, ModelStep
from real_fleet import INJECTED, SECONDS, RealFleet, acknowledged
from selection import by_default
from waiting import retry_until

pytestmark = pytest.mark.e2e
GOAL = "Write the migration of the upload table"


@pytest.fixture(params=by_default(["claude", "codex", "pi"], "claude"))
def fleet(request: pytest.FixtureRequest) -> Iterator[RealFleet]:
    """A fleet of each of the programs."""
    world = request.getfixturevalue(f"with_{request.param}")
    arguments = ("--dangerously-bypass-hook-trust",) if request.param == "codex" else ()
    made = RealFleet(world, request.param, arguments)
    made.serve()
    made.install()
    rule = ModelRule(INJECTED, (ModelStep(reply=acknowledged),))
    world.model.rules = (rule, *world.model.rules)
    yield made
    made.close()


def test_a_fork_and_its_original_both_go_on(fleet: RealFleet) -> None:
    """The first keeps its session and gets nothing typed; the second has a session, a brief and the goal."""
    agent = fleet.worked(fleet.started())
    before = len(fleet.world.model.log)
    answer = fleet.api("POST", f"/api/agents/{agent}/fork", {"goal": GOAL})
    of = fleet.ends(answer["id"], seconds=2 * SECONDS)
    first, second = fleet.agent(agent), fleet.agent(of["successor_id"])
    (told,) = fleet.asked(INJECTED)
    assert told.number >= before
    assert told.count_text(GOAL) == 1
    assert first["session"] != second["session"]
    assert (first["ended_at"], second["forked_from"]) == (None, agent)

    for number, one in enumerate((first, second)):
        words = f"Round {number}: what is next?"
        fleet.idle(one["id"])
        fleet.api("POST", f"/api/agents/{one['id']}/send", {"text": words})
        (request,) = retry_until(lambda words=words: fleet.asked(words), SECONDS)
        assert request.count_text(GOAL) == number
        fleet.idle(one["id"])
