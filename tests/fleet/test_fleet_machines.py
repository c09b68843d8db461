"""Several hosts of one fleet: orders, news, moves from one to another, hosts that are killed or gone."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import Postgres
from fleets import LIMITS, Refused, World, refusal
from machines import Machines, clone, git, host_of, machines, make_origin, seen_by
from waiting import retry_until


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Machines]:
    """The hosts of one fleet, none of them started yet."""
    with machines(tmp_path, postgres) as made:
        yield made


def pair(fleet: Machines) -> tuple[World, World]:
    """Two hosts that see each other."""
    one, two = fleet.add(), fleet.add()
    seen_by(one, host_of(two))
    seen_by(two, host_of(one))
    return one, two


SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"

# -- orders ----------------------------------------------------------------------------


def test_every_order_reaches_the_agent_wherever_it_is(fleet: Machines) -> None:
    """Started, told something, shown, pressed, handed off and ended from the other host."""
    one, two = pair(fleet)
    persona = one.persona()
    agent = one.api(
        "POST", "/api/agents",
        {"harness": "claude", "persona": persona, "cwd": str(two.work), "host": host_of(two)},
    )["id"]  # fmt: skip
    one.idle(agent)
    sent = one.api("POST", f"/api/agents/{agent}/send", {"text": "Fix the upload client"})
    one.idle(agent)
    shown = one.api("GET", f"/api/agents/{agent}/screen")["screen"]
    one.api("POST", f"/api/agents/{agent}/keys", {"key": "Escape"})
    handoff = one.ends(one.hand_off(agent))
    successor = handoff["successor_id"]
    ended = one.api("POST", f"/api/agents/{successor}/stop")

    assert host_of(two) == one.agent(agent)["host"]
    assert "proven" == sent["state"]
    assert 1 == len(two.prompts("Fix the upload client"))
    assert [] == one.seen("started")
    assert "Fix the upload client" in shown
    assert "ended" == ended["state"]
    assert [] == one.seen("exit")


def test_a_question_is_answered_wherever_it_is_asked(fleet: Machines) -> None:
    """From the other host: once, and with the refusal of the agent's own host."""
    one, two = pair(fleet)
    two.script(migrate=[["permit", "alembic downgrade -1", "Run migration down"], ["say", "Done."]])
    agent = two.started()
    one.api("POST", f"/api/agents/{agent}/send", {"text": "migrate it"})
    question = retry_until(
        lambda: (now := one.agent(agent)["question"]) and now["is_read"] and now, 20
    )
    body = {"mark": question["mark"], "choice": "1"}
    address = f"/api/agents/{agent}/answer"
    wrong = refusal(one, address, {**body, "choice": "9"})
    given = one.api("POST", address, body)
    again = refusal(one, address, body)
    two.idle(agent)

    assert "alembic downgrade -1" == question["detail"]
    assert (400, "It offers no choice '9' now. Its choices: 1, 2, 3.") == wrong
    assert "proven" == given["state"]
    assert 400 == again[0]
    assert ["1"] == [one["text"] for one in two.seen("answered")]


def test_an_order_with_the_same_key_is_typed_once(fleet: Machines) -> None:
    """Repeated from both hosts it is the same order; for another agent it is another, with another text refused."""
    one, two = pair(fleet)
    kim = one.api("POST", "/api/personas", {"role": "developer", "name": "kim", "skill": "Be."})
    agent, other = two.started(), two.started(persona=kim["slug"])
    for world in (one, one, two):
        world.tasuki("agent", "send", str(agent), "--key", "k1", "Once alone")
        two.idle(agent)
    one.tasuki("agent", "send", str(other), "--key", "k1", "Once alone")
    wrong = one.tasuki("agent", "send", str(agent), "--key", "k1", "Something else", code=1)

    assert 2 == len(two.prompts("Once alone"))
    assert "This key was used for another text" in wrong
    assert [] == two.prompts("Something else")


def test_what_is_refused_there_is_refused_here(fleet: Machines) -> None:
    """With the status and the sentence of the host that refused."""
    one, two = pair(fleet)
    agent = two.started()
    orders = [
        ("send", {"text": " \n "}), ("keys", {"key": "F13"}), ("handoff", {"reason": ""}),
        ("resume", {}),
    ]  # fmt: skip
    here = [refusal(two, f"/api/agents/{agent}/{name}", body) for name, body in orders]
    there = [refusal(one, f"/api/agents/{agent}/{name}", body) for name, body in orders]

    assert here == there
    assert {400} == {status for status, _ in there}


# -- a move ----------------------------------------------------------------------------


def differ(fleet: Machines) -> tuple[World, World]:
    """Two hosts whose clocks are ten minutes apart."""
    one, two = fleet.make(), fleet.make()
    for world, seconds in ((one, "300"), (two, "-300")):
        world.env["FLEET_CLOCK"] = seconds
        world.serve()
        world.install()
    seen_by(one, host_of(two))
    return one, two


def prepare_move(
    fleet: Machines, pair: Callable[[Machines], tuple[World, World]] = pair
) -> tuple[World, World, int, Path, Path]:
    """Two hosts with a checkout each, and an agent with uncommitted work on the first one."""
    one, two = pair(fleet)
    origin = make_origin(fleet.folder)
    here, there = clone(origin, one.folder / "repo"), clone(origin, two.folder / "repo")
    git(here, "config", "user.name", "Ann")
    git(here, "config", "user.email", "ann@example.com")
    (here / "local.py").write_text("not pushed\n")
    git(here, "add", "local.py")
    git(here, "commit", "-q", "-m", "Not pushed")
    (here / "upload.py").write_text("def upload():\n    return 2\n")
    git(here, "add", "upload.py")
    (here / "upload.py").write_text("def upload():\n    return 3\n")
    (here / "new.py").write_text("untracked\n")
    agent = one.worked(one.started(cwd=str(here)))
    return one, two, agent, here, there


def move(one: World, two: World, agent: int, there: Path, **more: Any) -> str:
    """Begin a move; the handoff's id."""
    return one.hand_off(agent, to_host=host_of(two), to_cwd=str(there), **more)


def test_an_agent_moves_with_its_uncommitted_work(fleet: Machines) -> None:
    """Its successor goes on there, in the same state of the same repository, with document and thread."""
    one, two, agent, here, there = prepare_move(fleet)
    before = git(here, "status", "--porcelain=v2")

    handoff = one.ends(move(one, two, agent, there), seconds=90)
    successor = two.agent(two.idle(handoff["successor_id"]))
    work = Path(successor["cwd"])

    assert (host_of(two), "idle") == (successor["host"], successor["state"])
    assert "ended" == one.agent(agent)["state"]
    assert before == git(work, "status", "--porcelain=v2")
    assert git(here, "rev-parse", "HEAD") == git(work, "rev-parse", "HEAD")
    assert "untracked\n" == (work / "new.py").read_text()
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert [] == one.prompts("Begin your answer with this line")
    document = Path(handoff["file_path"])
    assert document.is_relative_to(two.data.parent)
    assert document.read_text().strip()
    thread = one.agent(agent)["thread"]
    assert not Path(thread).is_relative_to(two.folder)
    assert "Fix the upload client" in two.tasuki("read", f"{hide(thread)}#1")


def hide(thread: str) -> str:
    """The path of a thread that this machine has, as a host sees it that has it not."""
    Path(thread).rename(f"{thread}.elsewhere")
    return thread


def test_nobody_lands_where_another_agent_works(fleet: Machines) -> None:
    """A place that was free when the move was ordered is taken when it arrives: it gets a worktree."""
    one, two, agent, here, there = prepare_move(fleet)
    git(here, "push", "-q")
    other = two.started(cwd=str(there), persona=two.named_persona("ida"))
    preview = one.tasuki("agent", "handoff", str(agent), "--reason", "move", "--to-host", host_of(two),
                         "--to-cwd", str(there), "--dry-run")  # fmt: skip
    id = move(one, two, agent, there)
    moved = one.agent(one.ends(id)["successor_id"])

    assert f"Others work in {there} there." in preview
    assert moved["cwd"].startswith(f"{there}-developer-con-1")
    assert git(there, "status", "--porcelain") == ""
    assert two.agent(other)["cwd"] == str(there)


def test_everything_moves_off_a_host(fleet: Machines) -> None:
    """Two agents of one checkout come into two places; one without a persona stays, and it is said why."""
    one, two, agent, here, _there = prepare_move(fleet)
    second = one.worked(one.started(cwd=str(here), persona=one.named_persona("ida")))
    third = one.started(cwd=str(here), persona="")
    dry = one.tasuki("host", "move-all", "--to", host_of(two), "--dry-run", code=1)
    said = one.tasuki("host", "move-all", "--to", host_of(two), "--watch", code=1)
    moved = [
        a for a in two.api("GET", "/api/agents?ended=false")["agents"] if a["host"] == host_of(two)
    ]

    assert dry.count("would move to") == 2
    assert f"Agent {third} (claude) stays: Agent {third} has no persona" in dry
    assert {a["persona"] for a in moved} == {"developer-con-1", "developer-ida-1"}
    assert len({a["cwd"] for a in moved}) == 2
    assert said.count(", done") == 2
    assert one.agent(agent)["ended_at"]
    assert one.agent(second)["ended_at"]
    assert one.agent(third)["ended_at"] is None


def test_a_move_from_the_thread_takes_its_brief_along(fleet: Machines) -> None:
    """The document is written from the thread; the record opens on the other host."""
    one, two, agent, _, there = prepare_move(fleet)

    id = move(one, two, agent, there, **{"from": "thread"})
    handoff = one.ends(id, seconds=90)

    assert handoff["author"].startswith("thread")
    assert id[:8] in two.tasuki("handoffs")
    assert "Fix the upload client" in two.tasuki("show", id[:8])


def test_a_dry_run_names_every_obstacle_and_does_nothing(fleet: Machines) -> None:
    """Nothing is recorded, typed or made; exit code 3 where it could not begin."""
    one, two, agent, here, there = prepare_move(fleet)
    (here / "key.env").write_text(f"GITHUB_TOKEN={SECRET}\n")
    (two.home / ".claude" / "settings.json").unlink()
    elsewhere = fleet.folder / "elsewhere"
    elsewhere.mkdir()
    words = (
        "agent",
        "handoff",
        str(agent),
        "--reason",
        "x",
        "--to-host",
        host_of(two),
        "--dry-run",
    )

    with (here / "huge.bin").open("wb") as huge:
        huge.truncate(60 << 20)
    said = one.tasuki(*words, "--to-cwd", str(elsewhere), code=3)
    (here / "huge.bin").unlink()
    two.install()
    (here / "key.env").unlink()
    fine = one.tasuki(*words, "--to-cwd", str(there))

    assert "The fleet's hooks are not in Claude Code" in said
    assert "key.env line 1" in said
    assert SECRET not in said
    assert f"{elsewhere} is no checkout of" in said
    assert "note      huge.bin is binary and was not looked through." in said
    (large,) = [line for line in said.splitlines() if "more than" in line]
    assert "huge.bin (" in large
    assert "" == git(here, "for-each-ref", "refs/tasuki")
    assert "can move to web1.example.com" in fine
    assert "Uncommitted work travels along (2 files" in fine
    assert [] == one.api("GET", "/api/handoffs")["handoffs"]
    assert "idle" == one.agent(agent)["state"]
    assert 1 == len(list(there.parent.glob("repo*")))


def test_a_target_that_cannot_start_the_harness_leaves_the_source_alive(fleet: Machines) -> None:
    """The arrival fails, is undone there, and says so; the agent works on, and a retry succeeds."""
    one, two, agent, _, there = prepare_move(fleet)
    program = two.folder / "bin" / "claude"
    program.rename(program.with_name("claude.away"))
    program.write_text("#!/bin/sh\necho broken; exit 1\n")
    program.chmod(0o755)

    id = move(one, two, agent, there)
    failed = one.ends(id, "failed", seconds=90)
    left = [path.name for path in there.parent.glob("repo-*")]
    one.idle(agent)
    one.api("POST", f"/api/agents/{agent}/send", {"text": "Are you there?"})
    one.idle(agent)
    program.unlink()
    program.with_name("claude.away").rename(program)
    one.api("POST", f"/api/handoffs/{id}/retry")
    done = one.ends(id, seconds=90)

    assert "Undone there:" in failed["failure"]["sentence"]
    assert f"Agent {agent} lives on" in failed["failure"]["sentence"]
    assert [] == left
    assert host_of(two) == two.agent(done["successor_id"])["host"]
    assert "3" in (Path(two.agent(done["successor_id"])["cwd"]) / "upload.py").read_text()


def test_a_cancelled_move_is_undone_on_the_other_host(fleet: Machines) -> None:
    """Cancelled while the successor starts: the agent stays, and nothing of the move."""
    one, two, agent, _, there = prepare_move(fleet)
    two.script(never=[])
    (two.folder / "script.json").write_text(json.dumps({"start_delay": 30.0, "rules": []}))

    id = move(one, two, agent, there)
    retry_until(lambda: one.handoff(id)["step"] in ("create", "register"), 60)
    retry_until(lambda: one.handoff(id)["successor_id"], 30)
    one.api("POST", f"/api/handoffs/{id}/cancel")
    retry_until(lambda: any("Undone on this host" in line["text"] for line in one.log()), 90)

    assert "cancelled" == one.handoff(id)["state"]
    assert "idle" == one.agent(agent)["state"]
    assert [] == [path.name for path in there.parent.glob("repo-*")]
    assert "" == git(there, "status", "--porcelain")


def test_a_successor_that_asks_something_first_is_kept(fleet: Machines) -> None:
    """It does not register in time: nothing is undone, the agent lives, and a retry goes on with it."""
    one, two, agent, _, there = prepare_move(fleet)
    two.kill(15)
    two.serve(limits=json.dumps({**LIMITS, "register": 3.0}))
    seen_by(one, host_of(two))
    (two.folder / "script.json").write_text(json.dumps({"start_delay": 12.0, "rules": []}))

    id = move(one, two, agent, there)
    failed = one.ends(id, "failed", seconds=90)
    place = Path(failed["move"]["place"])
    was_there = place.is_dir()
    one.idle(failed["successor_id"])
    one.api("POST", f"/api/handoffs/{id}/retry")
    done = one.ends(id, seconds=90)

    assert "successor_silent" == failed["failure"]["code"]
    assert "Nothing was undone; to undo the move, cancel it." in failed["failure"]["sentence"]
    assert was_there
    assert failed["successor_id"] == done["successor_id"]
    assert 1 == len(two.seen("started"))
    assert 1 == len(two.prompts("Begin your answer with this line"))


POINTS = (
    ("one", "pack:before"), ("one", "pack:after"), ("one", "shut_down:before"), ("one", "shut_down:after"),
    ("two", "unpack:before"), ("two", "unpack:after"), ("two", "create:after"), ("two", "register:after"),
    ("two", "fetch:before"), ("two", "fetch:after"), ("two", "prompt:after"), ("two", "deliver:after"),
)  # fmt: skip
FEW = (
    ("one", "pack:after"),
    ("two", "unpack:after"),
    ("one", "shut_down:after"),
    ("two", "prompt:after"),
)


@pytest.mark.parametrize(
    ("which", "point"),
    [
        pytest.param(*one, marks=() if one in FEW else pytest.mark.long, id="-".join(one))
        for one in POINTS
    ],
)
def test_a_host_is_killed_in_the_middle_of_a_move(fleet: Machines, which: str, point: str) -> None:
    """Killed at each point, with the other host alive: everything once, nothing lost, nothing doubled."""
    one, two, agent, _, there = prepare_move(fleet)
    killed = one if which == "one" else two
    killed.kill()
    killed.serve(at=point)
    seen_by(one, host_of(two))
    id = move(one, two, agent, there)
    killed.kill_at_point()
    killed.serve()

    handoff = one.ends(id, seconds=120)

    assert 1 == len(one.prompts("Write a handoff document for it now"))
    assert 1 == len(two.prompts("Begin your answer with this line"))
    assert [1, 1] == [len(world.seen("started")) for world in (one, two)]
    assert 1 == len(one.seen("exit"))
    assert [agent, handoff["successor_id"]] == sorted(row["id"] for row in one.agent_rows())
    assert {host_of(one)} == steps_on(one, id, ("pack", "shut_down"))
    assert 1 == len(list(there.parent.glob("repo*"))) or not handoff["move"]["in_place"]


def steps_on(world: World, id: str, names: tuple[str, ...]) -> set[str]:
    """The hosts on whose queue the legs of a handoff ran that hold some steps."""
    rows = world.sql(
        "SELECT workflow_uuid, executor_id, queue_name FROM tasuki_workflows.workflow_status "
        f"WHERE workflow_uuid LIKE '{id}%'"
    )
    assert all(row["queue_name"] == f"host-{row['executor_id']}" for row in rows), rows
    found = {row["workflow_uuid"]: row["executor_id"] for row in rows}
    legs = {"pack": f"{id}-1-await_idle", "shut_down": f"{id}-1-shut_down"}
    return {found[legs[name]] for name in names if legs[name] in found}


# -- hosts that are away or gone -------------------------------------------------------


def make_away(world: World, host: str, seconds: float) -> None:
    """As if a host had not been seen for some seconds."""
    world.sql(f"UPDATE hosts SET last_seen = last_seen - {seconds} WHERE id = '{host}'")


def test_a_host_that_sleeps_loses_nothing(fleet: Machines) -> None:
    """Its agents stay; orders are refused with since when; back after an hour it goes on."""
    one, two = pair(fleet)
    agent, gone = two.started(), host_of(two)
    two.kill()
    make_away(one, gone, 3600)
    status, sentence = refusal(one, f"/api/agents/{agent}/send", {"text": "Too late"})
    shown = one.tasuki("agent", "list")
    two.serve()
    seen_by(one, gone)
    one.api("POST", f"/api/agents/{agent}/send", {"text": "Good morning"})

    assert 409 == status
    assert (
        "Nothing was done. The host web1.example.com is away: it was last seen 60 minutes ago."
        == sentence
    )
    assert "(away)" in shown
    assert "idle" == one.agent(one.idle(agent))["state"]
    assert ([], 1) == (two.prompts("Too late"), len(two.prompts("Good morning")))


def test_an_agent_of_a_host_that_is_gone_goes_on_elsewhere(fleet: Machines) -> None:
    """Given up, its thread comes from the database, and its persona's work goes on on this host."""
    one, two = pair(fleet)
    one.config(notify="", keep_threads="all")
    two.config(notify="", keep_threads="all")
    two.kill(15)
    two.serve()
    seen_by(one, host_of(two))
    origin = make_origin(fleet.folder)
    there, here = clone(origin, two.folder / "repo"), clone(origin, one.folder / "repo")
    agent, gone = two.worked(two.started(cwd=str(there))), host_of(two)
    retry_until(lambda: one.sql("SELECT 1 FROM thread_copies"), 60)
    two.kill()
    alive = refusal(one, f"/api/hosts/{gone}/give-up", {})
    make_away(one, gone, 120)
    given_up = one.tasuki("host", "give-up", gone)
    hide(one.agent(agent)["thread"])
    said = one.tasuki(
        "agent", "handoff", str(agent), "--reason", "its host is gone", "--to-host", host_of(one),
        "--to-cwd", str(here), "--from-thread",
    )  # fmt: skip
    (handoff,) = one.api("GET", "/api/handoffs")["handoffs"]
    done = one.ends(handoff["id"], seconds=90)

    assert 400 == alive[0]
    assert f"agent {agent} (developer-con-1): tasuki agent handoff {agent}" in given_up
    assert "lost" == one.agent(agent)["state"]
    assert "begins" in said
    assert (host_of(one), "rescue") == (
        one.agent(done["successor_id"])["host"],
        done["move"]["kind"],
    )
    assert "Fix the upload client" in Path(done["file_path"]).read_text()
    assert 1 == len(one.prompts("Begin your answer with this line"))


def test_a_host_that_was_given_up_says_so_when_it_is_back(fleet: Machines) -> None:
    """It starts nothing for its old agents, and is a host of the fleet again."""
    one, two = pair(fleet)
    agent, gone = two.started(), host_of(two)
    two.kill()
    make_away(one, gone, 120)
    one.api("POST", f"/api/hosts/{gone}/give-up")
    two.serve()

    retry_until(lambda: any("was given up and is back" in x["text"] for x in one.alarms()), 30)
    seen_by(one, gone)
    assert "lost" == one.agent(agent)["state"]
    assert 1 == len(two.seen("started"))


# -- what all hosts share --------------------------------------------------------------


def test_the_log_of_one_host_is_live_on_the_other(fleet: Machines) -> None:
    """Events of an agent arrive on the other host's stream, in one order, none left out."""
    one, two = pair(fleet)
    agent = two.started()
    before = one.log()[-1]["id"]
    two.api("POST", f"/api/agents/{agent}/send", {"text": "Hello"})
    two.idle(agent)
    retry_until(lambda: [x for x in one.log() if x["kind"] == "idle" and x["agent_id"] == agent])
    after = two.api("GET", f"/api/log?after={before}&limit=1000")["events"]

    assert after == one.api("GET", f"/api/log?after={before}&limit=1000")["events"]
    assert len({x["id"] for x in after}) == len(after)


def test_a_persona_is_the_same_on_every_host(fleet: Machines) -> None:
    """Added here, used there; what is edited by hand on a host reaches the others."""
    one, two = pair(fleet)
    slug = one.persona("First.")
    file = two.data.parent / "nothing"
    shown = two.api("GET", f"/api/personas/{slug}")["skill"]
    (skill,) = [p for p in two.folder.rglob("skill.md") if slug in str(p)]
    skill.write_text("Edited by hand.\n")
    two.api("GET", f"/api/personas/{slug}")
    edited = one.api("GET", f"/api/personas/{slug}")["skill"]

    assert not file.exists()
    assert ("First.", "Edited by hand.") == (shown, edited)


def test_the_same_host_twice_is_refused(fleet: Machines) -> None:
    """A copy of a data folder is not a second server of the same host."""
    import shutil

    one = fleet.add()
    copy = fleet.make()
    shutil.copytree(
        one.data, copy.data, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock", "address")
    )

    assert f"A server of this host ({host_of(one)}) has this database already" in copy.refused()


def test_hosts_are_listed_labelled_and_found(fleet: Machines) -> None:
    """By id, label or beginning; a name that another one has, or none, is refused with a sentence."""
    one, two = pair(fleet)
    one.kill(15)
    one.serve()
    listed = one.tasuki("host", "list")
    one.tasuki("host", "label", host_of(two), "build2")
    renamed = json.loads(two.tasuki("host", "list", "--json"))["hosts"]
    twice = one.tasuki("host", "label", host_of(one), "BUILD2", code=1)
    unknown = one.tasuki(
        "agent", "start", "--on", "nobody", "--cwd", "/", "--harness", "claude", code=1
    )

    assert "Anns-MacBook-Pro.local" in listed
    assert "web1.example.com" in listed
    assert "claude" in listed
    assert {"Anns-MacBook-Pro.local", "build2"} == {host["label"] for host in renamed}
    assert "is called build2 already" in twice
    assert "No host 'nobody' in this fleet. There are: Anns-MacBook-Pro.local, build2." in unknown


def test_clocks_that_differ_do_not_make_a_host_away(fleet: Machines) -> None:
    """Five minutes fast and five slow: both live, the list says it, and orders go through."""
    one, two = differ(fleet)
    agent = two.started()
    sent = one.api("POST", f"/api/agents/{agent}/send", {"text": "Hello"})
    listed = one.tasuki("host", "list")

    assert "proven" == sent["state"]
    assert "clock 300 s fast" in listed
    assert "clock 300 s slow" in listed


def test_times_of_a_move_are_those_of_the_database(fleet: Machines) -> None:
    """Each step begins once the one before has ended, whichever host carried it out."""
    one, two, agent, _, there = prepare_move(fleet, differ)
    handoff = one.ends(move(one, two, agent, there), seconds=90)
    times = [
        moment for step in handoff["steps"] for moment in (step["started_at"], step["ended_at"])
    ]

    assert times == sorted(times)
    assert handoff["created_at"] <= times[0] + 0.5
    assert handoff["finished_at"] - handoff["created_at"] < 120


def test_nothing_is_refused_without_a_reason(fleet: Machines) -> None:
    """Moves that cannot be: unknown host, the same host, one that was stopped."""
    one, two = pair(fleet)
    agent, gone = one.worked(one.started()), host_of(two)
    same = refusal(one, f"/api/agents/{agent}/handoff", {"reason": "x", "to_host": host_of(one)})
    unknown = refusal(one, f"/api/agents/{agent}/handoff", {"reason": "x", "to_host": "hzz"})
    two.kill(15)
    seen_by(one, gone, "off")
    stopped = refusal(one, f"/api/agents/{agent}/handoff", {"reason": "x", "to_host": gone})

    assert (400, True) == (same[0], "It is on Anns-MacBook-Pro.local already." in same[1])
    assert 404 == unknown[0]
    assert (400, True) == (stopped[0], "was stopped. Start it there: tasuki serve" in stopped[1])
    assert "idle" == one.agent(agent)["state"]
    assert [] == one.api("GET", "/api/handoffs")["handoffs"]
    assert os.path.isdir(one.work)
    with pytest.raises(Refused):
        one.handoff("0" * 32)
