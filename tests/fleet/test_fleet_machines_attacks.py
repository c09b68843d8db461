"""Attacks on the fleet of several hosts: what was lost, done twice, or stuck for ever, and is not any more."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import Postgres, missing
from fleets import Refused, World, refusal
from machines import Machines, clone, git, host_of, machines, make_origin, seen_by
from test_fleet_machines import SECRET, make_away, move, pair, prepare_move
from waiting import retry_until

pytestmark = pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Machines]:
    """The hosts of one fleet, none of them started yet."""
    with machines(tmp_path, postgres) as made:
        yield made


# -- keys ------------------------------------------------------------------------------


def test_a_key_names_one_text_to_one_agent(fleet: Machines) -> None:
    """The same key to two agents of another host: both get their text; another text with it is refused."""
    one, two = pair(fleet)
    first, second = two.started(), two.started()
    for agent in (first, second):
        one.tasuki("agent", "send", str(agent), "--key", "k1", f"For agent {agent}")
    said = one.tasuki("agent", "send", str(first), "--key", "k1", "Another text", code=None)
    one.tasuki("agent", "send", str(first), "--key", "k1", f"For agent {first}")

    assert [1, 1] == [len(two.prompts(f"For agent {id}")) for id in (first, second)]
    assert "This key was used for another text" in said
    assert [] == two.prompts("Another text")


def test_an_order_that_was_withdrawn_or_refused_can_be_repeated_with_its_key(
    fleet: Machines,
) -> None:
    """That is what a key is for: repeat until it is done, and it is done once."""
    one, two = pair(fleet)
    agent = two.started()
    words = ("agent", "send", str(agent), "--key", "k1", "Once alone")
    assert two.server
    two.server.send_signal(signal.SIGSTOP)
    late = one.tasuki(*words, code=None)
    two.server.send_signal(signal.SIGCONT)
    seen_by(one, host_of(two), seconds=60)
    repeated = one.tasuki(*words, code=None)
    one.tasuki(*words, code=None)

    assert "withdrawn" in late
    assert 1 == len(two.prompts("Once alone")), repeated


def test_a_text_that_was_sent_does_not_stay_in_the_database(fleet: Machines) -> None:
    """An order holds it until its result is known, or until it is withdrawn."""
    one, two = pair(fleet)
    agent = two.started()
    one.api("POST", f"/api/agents/{agent}/send", {"text": f"The key is {SECRET}"})
    assert two.server
    two.server.send_signal(signal.SIGSTOP)
    late = refusal(one, f"/api/agents/{agent}/send", {"text": "Withdrawn"})
    two.server.send_signal(signal.SIGCONT)
    orders = "SELECT workflow_uuid FROM tasuki_workflows.workflow_status WHERE name = 'order'"

    assert 409 == late[0]
    assert [] == one.sql(orders)


# -- give up ---------------------------------------------------------------------------


def test_the_source_is_given_up_while_the_successor_starts(fleet: Machines) -> None:
    """The move fails with a sentence, instead of waiting for the host that is gone, and can be cancelled."""
    one, two, agent, _, there = prepare_move(fleet)
    (two.folder / "script.json").write_text(json.dumps({"start_delay": 5.0, "rules": []}))
    id = move(one, two, agent, there)
    retry_until(lambda: two.handoff(id)["step"] in ("create", "register"), 60)
    gone = host_of(one)
    one.kill()
    make_away(two, gone, 120)
    two.tasuki("host", "give-up", gone)
    handoff = two.ends(id, seconds=90)
    steps = {step["step"]: step for step in two.handoff(id)["steps"]}

    assert "was given up. The agent may still run there." in steps["shut_down"]["note"]
    assert "lost" == two.agent(agent)["state"]
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert "3" in (Path(two.agent(handoff["successor_id"])["cwd"]) / "upload.py").read_text()


def test_the_source_is_given_up_while_it_ends_its_agent(fleet: Machines) -> None:
    """The move fails, and a retry from the other host completes it there."""
    one, two, agent, _, there = prepare_move(fleet)
    one.kill()
    one.serve(at="shut_down:before")
    seen_by(one, host_of(two))
    id, gone = move(one, two, agent, there), host_of(one)
    one.kill_at_point()
    make_away(two, gone, 120)
    two.tasuki("host", "give-up", gone)
    failed = two.ends(id, "failed")
    two.tasuki("agent", "retry", id[:8])
    two.ends(id, seconds=90)
    one.serve()
    seen_by(two, gone)
    time.sleep(3)

    assert "Retry it: its successor on the other host has the work" in failed["failure"]["remedy"]
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert [] == one.seen("exit")
    assert "done" == one.handoff(id)["state"]


def test_the_target_is_given_up_in_the_middle(fleet: Machines) -> None:
    """The agent lives on; a retry is refused with a reason, a cancel frees it, and it is handed off anew."""
    one, two, agent, _, there = prepare_move(fleet)
    one.kill()
    one.serve(at="pack:after")
    seen_by(one, host_of(two))
    id, gone = move(one, two, agent, there), host_of(two)
    one.kill_at_point()
    two.kill()
    one.serve()
    retry_until(lambda: one.handoff(id)["host"] == gone, 30)
    retired = refusal(one, f"/api/hosts/{gone}/retire")
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    failed = one.ends(id, "failed")
    retry = one.tasuki("agent", "retry", id[:8], code=None)
    packed = one.sql("SELECT DISTINCT name FROM parcels")
    one.tasuki("agent", "cancel", id[:8])
    left = one.sql("SELECT name FROM parcels")
    again = one.ends(one.hand_off(agent), seconds=60)

    assert (400, True) == (retired[0], "1 handoff under way needs web1.example.com" in retired[1])
    assert ([{"name": "bundle"}], []) == (packed, left)
    assert "was given up at this step" in failed["failure"]["sentence"]
    assert "was given up. Give the handoff up" in retry
    assert host_of(one) == one.agent(again["successor_id"])["host"]


@pytest.mark.parametrize("point", ["pack:after", "unpack:after", "create:after"])
def test_a_move_is_cancelled_while_a_step_ends(fleet: Machines, point: str) -> None:
    """Cancelled from the other host between a step's work and its record: nothing of it stays."""
    one, two, agent, _, there = prepare_move(fleet)
    world, other = (one, two) if point.startswith("pack") else (two, one)
    world.kill()
    world.serve(at=point)
    seen_by(other, host_of(world))
    id = move(other, two, agent, there)
    retry_until(world.reached.exists, 60)
    other.api("POST", f"/api/handoffs/{id}/cancel")
    world.kill()
    world.serve()
    seen_by(other, host_of(world))
    retry_until(lambda: not list(there.parent.glob("repo-*")), 30)
    retry_until(lambda: not other.sql("SELECT name FROM parcels"), 30)
    retry_until(lambda: [x["state"] for x in other.agent_rows() if x["ended_at"] is None] == ["idle"], 30)  # fmt: skip

    assert "idle" == other.agent(agent)["state"]
    assert "cancelled" == other.handoff(id)["state"]
    assert [] == two.prompts("Begin your answer with this line")


def test_a_rescue_without_a_thread_is_refused_before_it_begins(fleet: Machines) -> None:
    """Nothing was stored: the dry run says so, and nothing begins."""
    one, two = pair(fleet)
    agent, gone = two.worked(two.started()), host_of(two)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    said = one.tasuki(
        "agent", "handoff", str(agent), "--reason", "gone", "--to-host", host_of(one),
        "--to-cwd", str(one.work), "--dry-run", code=None,
    )  # fmt: skip
    begun = one.tasuki(
        "agent", "handoff", str(agent), "--reason", "gone", "--to-host", host_of(one),
        "--to-cwd", str(one.work), code=None,
    )  # fmt: skip

    assert "is not in the database" in begun
    assert "is not in the database" in said
    assert [] == one.api("GET", "/api/handoffs")["handoffs"]


def test_a_rescue_into_a_dirty_checkout_claims_nothing_that_is_not_there(fleet: Machines) -> None:
    """A worktree beside it; the successor is not told that unpushed work came along."""
    one, two = pair(fleet)
    two.config(notify="", keep_threads="all")
    two.kill(15)
    two.serve()
    seen_by(one, host_of(two))
    origin = make_origin(fleet.folder)
    there, here = clone(origin, two.folder / "repo"), clone(origin, one.folder / "repo")
    (here / "upload.py").write_text("mine\n")
    agent, gone = two.worked(two.started(cwd=str(there))), host_of(two)
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    done = one.ends(one.hand_off(agent, to_host=host_of(one), to_cwd=str(here)), seconds=90)
    (prompt,) = one.prompts("Begin your answer with this line")

    assert "mine\n" == (here / "upload.py").read_text()
    assert "repo-developer-con-1" == Path(done["move"]["place"]).name
    assert "its uncommitted work are here" not in prompt["text"]
    assert "which has only what this checkout had" in prompt["text"]


def test_the_program_of_an_agent_that_was_given_up_goes_on(fleet: Machines) -> None:
    """Its host is back, it works elsewhere: its old hooks change nothing there."""
    one, two = pair(fleet)
    for world in (one, two):
        world.config(notify="", keep_threads="all")
        world.kill(15)
        world.serve()
    seen_by(one, host_of(two))
    seen_by(two, host_of(one))
    agent, gone = two.worked(two.started()), host_of(two)
    pane = two.agent(agent)["pane"]
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    make_away(one, gone, 120)
    one.tasuki("host", "give-up", gone)
    id = one.hand_off(agent, to_host=host_of(one), to_cwd=str(one.work))
    done = one.ends(id, seconds=90)
    two.serve()
    seen_by(one, gone)
    two.tmux("send-keys", "-t", pane, "-l", "Typed by hand")
    two.tmux("send-keys", "-t", pane, "Enter")
    retry_until(lambda: two.prompts("Typed by hand"), 20)
    time.sleep(4)

    assert "lost" == one.agent(agent)["state"]
    assert "idle" == one.agent(done["successor_id"])["state"]


# -- what a dry run and a list say -----------------------------------------------------


def test_a_dry_run_says_that_the_agent_has_ended(fleet: Machines) -> None:
    """It cannot write a document; from its thread it can move."""
    one, two, agent, _, there = prepare_move(fleet)
    one.api("POST", f"/api/agents/{agent}/stop")
    words = ("agent", "handoff", str(agent), "--reason", "x", "--to-host", host_of(two), "--to-cwd", str(there))  # fmt: skip
    refused = one.tasuki(*words, "--dry-run", code=3)
    fine = one.tasuki(*words, "--from-thread", "--dry-run")
    one.tasuki(*words, "--from-thread")
    (handoff,) = one.api("GET", "/api/handoffs")["handoffs"]
    done = one.ends(handoff["id"], seconds=90)

    assert f"Agent {agent} has ended. Hand it off from its thread: --from-thread" in refused
    assert f"Agent {agent} can move to web1.example.com" in fine
    assert host_of(two) == one.agent(done["successor_id"])["host"]


def test_the_list_of_one_host_is_fresh(tmp_path: Path) -> None:
    """On SQLite: what is installed after the start of the server is listed."""
    world = World(tmp_path / "world")
    try:
        world.serve()
        before = world.tasuki("host", "list")
        world.install()
        after = world.tasuki("host", "list")
    finally:
        world.close()

    assert "none ready" in before
    assert "none ready" not in after


def test_names_of_worktrees_do_not_grow_from_move_to_move(fleet: Machines) -> None:
    """To the other host, back, and there again: beside the checkout, numbered."""
    one, two, agent, _, _ = prepare_move(fleet)
    places = []
    for target in (two, one, two):
        id = target.hand_off(agent, to_host=host_of(target))
        done = one.ends(id, seconds=90)
        agent = target.idle(done["successor_id"])
        places.append(done["move"]["place"])

    assert ["repo-developer-con-1", "repo-developer-con-1-2", "repo-developer-con-1-3"] == [
        Path(place).name for place in places
    ]
    assert "MM upload.py\n?? new.py\n" == git(Path(places[-1]), "status", "--porcelain")


# -- two operators ---------------------------------------------------------------------


def test_two_operators_hand_the_same_agent_off_at_once(fleet: Machines) -> None:
    """One begins; the other one is told so, and not that its own has begun."""
    one, two = pair(fleet)
    agent = two.worked(two.started())
    said: list[Any] = []

    def order(world: World, goal: str) -> None:
        try:
            said.append(
                world.api("POST", f"/api/agents/{agent}/handoff", {"reason": "x", "goal": goal})
            )
        except Refused as refused:
            said.append((refused.status, refused.body["error"]))

    threads = [threading.Thread(target=order, args=(one, f"goal {n}")) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [x for x in said if isinstance(x, tuple)]

    assert [(409, "Handoff already in progress")] * 2 == refused
