"""A real agent moves to another host: its work, its thread and its document are there, and it goes on."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import World
from databases import Postgres
from machines import clone, git, host_of, make_origin, seen_by
from real_fleet import INJECTED, SECONDS, RealFleet, tooled
from waiting import retry_until

pytestmark = pytest.mark.e2e
TRUST = "Yes, I trust this folder"


@pytest.fixture
def hosts(with_claude: World, postgres: Postgres) -> Iterator[tuple[RealFleet, RealFleet]]:
    """Two hosts with a home each, both with Claude Code, and a checkout of one repository on each."""
    world, url = with_claude, postgres.make()
    second_home = world.folder / "home2"
    shutil.copytree(world.home, second_home, symlinks=True)
    origin = make_origin(world.folder)
    for words in (("remote", "add", "origin", str(origin)), ("fetch", "-q", "origin"),
                  ("reset", "-q", "--hard", "origin/main"), ("branch", "-q", "--set-upstream-to=origin/main")):  # fmt: skip
        git(world.project, *words)
    there = clone(origin, world.folder / "there")
    one = RealFleet(world, "claude", (), "one", url)
    two = RealFleet(world, "claude", (), "two", url)
    two.home, two.work = second_home, there
    two.env["HOME"] = str(second_home)
    one.env |= {"FLEET_HOST_NAME": "laptop"}
    two.env |= {"FLEET_HOST_NAME": "build2"}
    trust(second_home, there)
    for fleet in (one, two):
        (fleet.data / "fleet").mkdir(parents=True, exist_ok=True)
        policy = '[default]\npermissions = ["acceptEdits"]\n'  # agents here have this mode
        (fleet.data / "fleet" / "host-policy.toml").write_text(policy)
        fleet.serve()
        fleet.install()
    seen_by(one, host_of(two))
    yield one, two
    one.close()
    two.close()
    postgres.drop(url)


def trust(home: Path, folder: Path, *, given: bool = True) -> None:
    """As the user did who said once that Claude Code may work in a folder; or who never said it."""
    file = home / ".claude.json"
    known = json.loads(file.read_text())
    known["projects"] = {str(folder): {"hasTrustDialogAccepted": True}} if given else {}
    file.write_text(json.dumps(known))


def test_a_real_agent_moves_with_its_uncommitted_work(hosts: tuple[RealFleet, RealFleet]) -> None:
    """Into the clean checkout of the other host: the same state, the thread readable, the prompt once."""
    one, two = hosts
    agent = one.worked(one.started())
    (one.work / "upload.py").write_text("def upload():\n    return 5\n")
    (one.work / "new.py").write_text("untracked\n")
    one.writes(tooled("Write"))

    id = one.hand_off(agent, to_host="build2", to_cwd=str(two.work))
    handoff = one.ends(id, seconds=3 * SECONDS)
    successor = two.agent(handoff["successor_id"])
    status = git(one.work, "status", "--porcelain=v2")

    assert status == git(Path(successor["cwd"]), "status", "--porcelain=v2")
    assert (str(two.work), host_of(two)) == (successor["cwd"], successor["host"])
    assert 1 == len(one.asked(INJECTED))
    assert Path(successor["thread"]).is_relative_to(two.home)
    Path(one.agent(agent)["thread"]).unlink()
    assert "Fix the upload client" in two.tasuki("read", f"{one.agent(agent)['thread']}#1")


def test_a_worktree_of_a_trusted_repository_asks_nothing(
    hosts: tuple[RealFleet, RealFleet],
) -> None:
    """Where the checkout has somebody's change the work lands beside it, and Claude Code begins at once."""
    one, two = hosts
    (two.work / "theirs.txt").write_text("somebody's change\n")
    agent = one.worked(one.started())
    one.writes(tooled("Write"))
    done = one.ends(
        one.hand_off(agent, to_host="build2", to_cwd=str(two.work)), seconds=2 * SECONDS
    )

    assert "somebody's change\n" == (two.work / "theirs.txt").read_text()
    assert f"{two.work}-developer-con-1" == done["move"]["place"]


def test_the_question_whether_to_trust_a_folder_is_answered_from_the_other_host(
    hosts: tuple[RealFleet, RealFleet],
) -> None:
    """Claude Code asks it where nobody said so yet: the move fails without undoing, and goes on after the answer."""
    one, agent, id = move_to_a_folder_nobody_trusts(hosts, register=12.0, idle=12.0)
    failed = one.ends(id, "failed", seconds=2 * SECONDS)
    successor = failed["successor_id"]
    retry_until(lambda: TRUST in screen(one, successor), SECONDS)
    answer_trust(one, successor)
    one.idle(successor)
    one.api("POST", f"/api/handoffs/{id}/retry")
    done = one.ends(id, seconds=2 * SECONDS)

    assert "successor_silent" == failed["failure"]["code"]
    assert successor == done["successor_id"]
    assert 1 == len(one.asked(INJECTED))
    assert "ended" == one.agent(agent)["state"]


def test_a_move_waits_for_the_answer_to_the_question_whether_to_trust_a_folder(
    hosts: tuple[RealFleet, RealFleet],
) -> None:
    """Nobody has to try it again: it waits longer than for a program that shows nothing."""
    one, agent, id = move_to_a_folder_nobody_trusts(hosts, register=12.0)
    successor = retry_until(lambda: one.handoff(id)["successor_id"], SECONDS)
    retry_until(lambda: one.agent(successor)["state"] == "waiting", SECONDS)
    time.sleep(13.0)  # longer than it waits for a program that shows no question
    answer_trust(one, successor)
    done = one.ends(id, seconds=2 * SECONDS)

    assert successor == done["successor_id"]
    assert 1 == len(one.asked(INJECTED))
    assert "ended" == one.agent(agent)["state"]


def move_to_a_folder_nobody_trusts(
    hosts: tuple[RealFleet, RealFleet], **limits: float
) -> tuple[RealFleet, int, str]:
    """Order a move to a host whose steps have these limits; return the first host, agent and handoff."""
    one, two = hosts
    trust(two.home, two.work, given=False)
    two.kill(15)
    two.serve(limits=json.dumps({"prompt": 30.0, "acknowledge": 60.0, **limits}))
    seen_by(one, host_of(two))
    agent = one.worked(one.started())
    one.writes(tooled("Write"))
    return one, agent, one.hand_off(agent, to_host="build2", to_cwd=str(two.work))


def answer_trust(fleet: RealFleet, agent: int) -> None:
    """Say yes in its pane."""
    for key in ("Down", "Enter"):
        fleet.api("POST", f"/api/agents/{agent}/keys", {"key": key})


def screen(fleet: RealFleet, agent: int) -> str:
    """What an agent's pane shows, asked of any host."""
    return str(fleet.api("GET", f"/api/agents/{agent}/screen")["screen"])
