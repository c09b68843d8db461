"""Usage limits of the real programs: an agent at its limit is carried on in the other program.

Claude Code reads an account's limits only from its provider's own host, which a proxy on this
machine stands in for.
"""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import npm_programs
import pytest
from agents import PROGRAMS
from conftest import World
from fakes.model_server import ModelRule, ModelStep
from limits import RESET, claude_limit, codex_limit, sign_in
from provider_proxy import ProviderProxy
from real_fleet import INJECTED, SECONDS, RealFleet, acknowledged
from waiting import retry_until

from tasuki.harness import registry as harnesses

pytestmark = pytest.mark.e2e
ASKED = "Build the upload client"
LIMITS = {"claude": claude_limit, "codex": codex_limit}


@pytest.fixture
def fleet(request: pytest.FixtureRequest, world: World) -> Iterator[RealFleet]:
    """A fleet that has Claude Code, signed in to a plan, and Codex; the parameter is its first harness."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    for name in ("claude", "codex"):
        PROGRAMS[name].prepare(world)
    command = [*npm_programs.command("codex"), "--dangerously-bypass-hook-trust"]
    world.program("codex", command)
    world.patch.delenv("ANTHROPIC_AUTH_TOKEN")
    world.patch.delenv("ANTHROPIC_BASE_URL")
    sign_in(world)
    with ProviderProxy("api.anthropic.com", world.model.url, world.folder) as proxy:
        world.set(
            HTTPS_PROXY=proxy.url, NODE_EXTRA_CA_CERTS=str(proxy.certificate), NO_PROXY="127.0.0.1"
        )
        made = RealFleet(world, request.param)
        made.serve()
        for name in ("claude", "codex"):
            made.tasuki("install", name, "--fleet", "--yes")
        yield made
        made.close()


def limited(fleet: RealFleet, step: ModelStep | None = None, **values: Any) -> Any:
    """An agent whose turn ended at a usage limit."""
    agent = fleet.worked(fleet.started(**values), "Read the notes")
    fleet.world.model.rules = (
        ModelRule(ASKED, (step or LIMITS[fleet.harness](),)),
        ModelRule(INJECTED, (ModelStep(reply=acknowledged),)),
    )
    fleet.api("POST", f"/api/agents/{agent}/send", {"text": ASKED})
    return agent


def check_successor(fleet: RealFleet, handoff: Any, old: Any, harness: str) -> None:
    """The other program goes on, with the document from the thread of the first."""
    new = fleet.agent(handoff["successor_id"])
    thread = harnesses.get_harness(harness).read(Path(new["thread"]))

    assert (handoff["from_thread"], handoff["acknowledged_at"] is not None) == (True, True)
    assert (new["harness"], new["persona"], new["previous_agent_id"]) == (
        harness, old["persona"], old["id"],
    )  # fmt: skip
    assert ASKED in Path(handoff["file_path"]).read_text()
    assert sum(handoff["id"] in entry.text for entry in thread.entries if entry.kind == "user") == 1
    persona = fleet.api("GET", f"/api/personas/{old['persona']}")
    assert persona["harness"] == "claude"


@pytest.mark.parametrize(
    ("fleet", "other"), [("claude", "codex"), ("codex", "claude")], indirect=["fleet"]
)
def test_e13_a_limited_agent_is_carried_on_by_hand(fleet: RealFleet, other: str) -> None:
    """E13: `--to` names the program in which the work goes on, and the thread says until when the limit is."""
    id = limited(fleet)
    old = fleet.is_in(id, "limited")
    begun = json.loads(
        fleet.tasuki("agent", "handoff", str(id), "--reason", "limit", "--to", other, "--json")
    )
    handoff = fleet.ends(begun["handoff"]["id"], seconds=2 * SECONDS)

    assert 0 < old["limited_until"] - time.time() <= RESET + 60
    assert "hit your" in old["limit_text"]
    check_successor(fleet, handoff, old, other)


@pytest.mark.parametrize("fleet", ["claude"], indirect=True)
def test_e13_on_limit_carries_on_by_itself(fleet: RealFleet) -> None:
    """The persona says where its work goes at a limit; the one that took over hands back by hand."""
    slug = fleet.persona()
    fleet.tasuki("persona", "edit", slug, "--on-limit", "codex")
    id = limited(fleet, persona=slug)
    found = retry_until(lambda: fleet.api("GET", f"/api/handoffs?agent={id}")["handoffs"], SECONDS)
    handoff = fleet.ends(found[0]["id"], seconds=2 * SECONDS)

    assert (handoff["automatic"], handoff["reason"]) == (True, "usage_limit")
    check_successor(fleet, handoff, fleet.agent(id), "codex")
    fleet.idle(handoff["successor_id"])
    back = fleet.hand_off(handoff["successor_id"], to="claude", **{"from": "thread"})
    last = fleet.agent(fleet.ends(back, seconds=2 * SECONDS)["successor_id"])
    assert last["harness"] == "claude"


@pytest.mark.long
@pytest.mark.parametrize("fleet", ["claude"], indirect=True)
def test_e13_a_dialog_about_the_limit_holds_nothing_up(fleet: RealFleet) -> None:
    """At the limit of a week Claude Code asks what to do: nobody answers, and the work goes on elsewhere."""
    id = limited(fleet, claude_limit("seven_day", 3 * 86400))
    old = fleet.is_in(id, "limited")
    fleet.shows(id, "Stop and wait for limit to reset")
    with pytest.raises(AssertionError):
        fleet.tasuki("agent", "resume", str(id), "--force")
    handoff = fleet.ends(fleet.hand_off(id, to="codex"), seconds=2 * SECONDS)

    check_successor(fleet, handoff, old, "codex")


@pytest.mark.long
def test_e13_pi_tells_its_limit_by_its_extension(with_pi: World) -> None:
    """Its provider's error, with the time of the reset, reaches the fleet at the end of the turn."""
    fleet = RealFleet(with_pi, "pi")
    fleet.serve()
    fleet.install()
    try:
        found = fleet.is_in(limited(fleet, codex_limit()), "limited")
    finally:
        fleet.close()

    assert found["limit_text"] == "The usage limit has been reached"
    assert 0 < found["limited_until"] - time.time() <= RESET
