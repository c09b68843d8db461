"""A fork: a second agent begins from the thread of an agent that goes on, with real panes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fleets import World, refusal
from waiting import retry_until

from tasuki.fleet.handoff.worktrees import (
    WorktreePlan,
    describe_uncommitted,
    make_worktree,
    plan_worktree,
)
from tasuki.fleet.store.failures import StepFailed

GOAL = "write the migration of the upload table"


def forked(world: World, agent: int, **body: Any) -> str:
    """Begin a fork; its id."""
    answer = world.api("POST", f"/api/agents/{agent}/fork", {"goal": GOAL, **body})
    assert answer["status"] == "initiated", answer
    return str(answer["id"])


def repository(world: World) -> Path:
    """The agents' folder is a repository with one commit and an uncommitted change."""
    git(world.work, "init", "-q", "-b", "main")
    (world.work / "src").mkdir()
    (world.work / "src" / "upload.py").write_text("LIMIT = 1\n")
    git(world.work, "add", "-A")
    git(world.work, "commit", "-q", "-m", "start")
    (world.work / "src" / "upload.py").write_text("LIMIT = 2\n")
    (world.work / "notes.txt").write_text("mine\n")
    return world.work


def git(folder: Path, *arguments: str) -> str:
    """Run git, as somebody."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.test")
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def undisturbed(world: World, agent: int, prompts: int = 1) -> None:
    """Assert that nothing was typed to an agent, and that it works on."""
    session = world.agent(agent)["session"]
    assert len(world.seen("prompt", session=session)) == prompts
    assert world.seen("exit", session=session) == []
    world.api("POST", f"/api/agents/{agent}/send", {"text": "go on with the client"})
    retry_until(lambda: len(world.seen("prompt", session=session)) == prompts + 1)
    assert world.agent(world.idle(agent))["ended_at"] is None


@pytest.mark.both_databases
def test_both_agents_go_on(world: World) -> None:
    """The second one gets a brief of the first one's thread with its goal, a persona and a pane of its own."""
    agent = world.worked(world.started())
    of = world.ends(forked(world, agent))
    first, second = world.agent(agent), world.agent(of["successor_id"])

    assert (of["fork"], of["goal"], of["author"]) == (True, GOAL, "thread (offline)")
    assert (first["persona"], second["persona"]) == ("developer-con-1", "developer-con-2")
    assert (second["forked_from"], second["previous_agent_id"]) == (agent, None)
    assert second["cwd"] == first["cwd"]
    assert first["pane"] != second["pane"]
    assert second["skill_at"]
    assert world.api("GET", "/api/personas/developer-con-2")["skill"] == world.api("GET", "/api/personas/developer-con-1")["skill"]  # fmt: skip
    (prompt,) = world.prompts("Begin your answer with this line")
    assert prompt["session"] == second["session"]
    assert f"You are a fork of agent {agent} (developer-con-1, session" in prompt["text"]
    assert f"What the user wants next: {GOAL}" in prompt["text"]
    assert f"where agent {agent} works too" in prompt["text"]
    document = Path(of["file_path"]).read_text()
    assert "Fix the upload client" in document
    assert GOAL in document
    assert "/developer-con-2/handoffs/" in of["file_path"]
    undisturbed(world, agent)
    world.api("POST", f"/api/agents/{second['id']}/send", {"text": "and the index"})
    assert world.agent(world.idle(second["id"]))["state"] == "idle"


def test_a_forked_agent_is_shown_with_its_origin(world: World) -> None:
    """In the list, on its own, in its persona's lineage, and among the handoffs."""
    agent = world.worked(world.started())
    of = world.ends(forked(world, agent))
    second = of["successor_id"]

    assert f"developer-con-2 (fork of {agent})" in world.tasuki("agent", "list")
    assert f"fork of      agent {agent}" in world.tasuki("agent", "show", str(second))
    assert f"fork         {of['id'][:8]}, done at done" in world.tasuki("agent", "show", str(agent))
    ((link,),) = world.api("GET", "/api/lineage/developer-con-2")["chains"]
    assert (link["agent"]["forked_from"], link["handoff"]["id"]) == (agent, of["id"])
    ((own,),) = world.api("GET", "/api/lineage/developer-con-1")["chains"]
    assert own["handoff"] is None
    assert of["id"][:8] in world.tasuki("handoffs", "--agents")


def test_a_busy_agent_is_not_waited_for(world: World) -> None:
    """Its turn goes on while the second one begins, and ends as it would have."""
    agent = world.worked(world.started())
    hold = world.folder / "go"
    world.rules({"match": "long turn", "do": [["wait_for", str(hold)], ["say", "long done"]]})
    session = world.agent(agent)["session"]
    sent = world.api("POST", f"/api/agents/{agent}/send", {"text": "a long turn"})
    assert sent["state"] == "proven"
    of = world.ends(forked(world, agent))

    assert world.agent(agent)["state"] == "busy"
    assert world.agent(of["successor_id"])["persona"] == "developer-con-2"
    hold.touch()
    world.idle(agent)
    assert len(world.seen("prompt", session=session)) == 2


def test_a_worktree_of_its_own(world: World) -> None:
    """On a new branch from the present commit; what is not committed stays with the first, and the brief says so."""
    work = repository(world)
    agent = world.worked(world.started(cwd=str(work / "src")))
    of = world.ends(forked(world, agent, worktree=True))
    second = world.agent(of["successor_id"])

    folder = work.with_name(f"{work.name}-developer-con-2")
    assert (of["worktree"], of["branch"]) == (str(folder), "fork/developer-con-2")
    assert second["cwd"] == str(folder / "src")
    assert git(folder, "branch", "--show-current") == "fork/developer-con-2"
    assert git(folder, "rev-parse", "HEAD") == git(work, "rev-parse", "HEAD")
    assert (folder / "src" / "upload.py").read_text() == "LIMIT = 1\n"
    assert (work / "src" / "upload.py").read_text() == "LIMIT = 2\n"
    assert not (folder / "notes.txt").exists()
    (prompt,) = world.prompts("Begin your answer with this line")
    for text in (prompt["text"], Path(of["file_path"]).read_text()):
        assert "on the new branch fork/developer-con-2" in text
        assert f"What agent {agent} has not committed is not in it" in text
        assert "src/upload.py" in text
        assert "notes.txt" in text
    assert any("Uncommitted changes stay with agent" in note for note in of["notes"])
    undisturbed(world, agent)


def test_a_worktree_that_cannot_be_is_refused_at_once(world: World) -> None:
    """No repository, no commit, a folder that exists, no whole path: nothing begins, no persona is added."""
    agent = world.worked(world.started())
    path = f"/api/agents/{agent}/fork"

    def refused(worktree: Any) -> tuple[int, str]:
        return refusal(world, path, {"goal": GOAL, "worktree": worktree})

    status, sentence = refused(True)
    assert (status, "is in no git repository" in sentence) == (400, True)
    git(world.work, "init", "-q")
    assert "has no commit yet" in refused(True)[1]
    git(world.work, "commit", "-q", "--allow-empty", "-m", "start")
    taken = world.folder / "taken"
    taken.mkdir()
    assert "exists already" in refused(str(taken))[1]
    assert "must be a whole path" in refused("beside")[1]
    assert world.api("GET", "/api/handoffs")["handoffs"] == []
    assert [p["slug"] for p in world.api("GET", "/api/personas")["personas"]] == ["developer-con-1"]
    of = world.ends(forked(world, agent, worktree=str(world.folder / "beside")))
    assert world.agent(of["successor_id"])["cwd"] == str(world.folder / "beside")


def test_a_folder_that_appears_meanwhile_fails_the_step_and_retry_works(world: World) -> None:
    """The failure says so; the first agent is not touched; once it is gone, the fork goes on."""
    work = repository(world)
    agent = world.worked(world.started())
    folder = world.folder / "beside"
    world.kill()
    world.serve(at="worktree:before")
    id = forked(world, agent, worktree=str(folder))
    world.kill_at_point()
    folder.mkdir()
    world.serve()

    assert world.failed(id) == "worktree_failed"
    folder.rmdir()
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)
    assert git(folder, "branch", "--show-current") == "fork/developer-con-2"
    assert len(git(work, "worktree", "list").splitlines()) == 2
    undisturbed(world, agent)
    assert of["attempt"] == 2


def test_a_persona_that_exists(world: World) -> None:
    """One without an agent is taken, with its harness; one with an agent, an unknown or a retired one is refused."""
    agent = world.worked(world.started())
    other = world.api(
        "POST", "/api/personas", {"role": "tester", "name": "ann", "skill": "You test."}
    )
    path = f"/api/agents/{agent}/fork"

    assert refusal(world, path, {"goal": GOAL, "persona": "developer-con-1"})[0] == 409
    assert refusal(world, path, {"goal": GOAL, "persona": "no-such-persona"})[0] == 404
    of = world.ends(forked(world, agent, persona=other["slug"]))
    assert world.agent(of["successor_id"])["persona"] == "tester-ann-1"
    assert refusal(world, path, {"goal": GOAL, "persona": "tester-ann-1"})[0] == 409
    second = forked(world, agent)
    assert world.agent(world.ends(second)["successor_id"])["persona"] == "developer-con-2"
    undisturbed(world, agent)


def test_an_agent_without_thread(world: World) -> None:
    """It took no turn, so a second one could begin with nothing."""
    agent = world.started()
    status, sentence = refusal(world, f"/api/agents/{agent}/fork", {"goal": GOAL})

    assert (status, "has no thread" in sentence) == (400, True)


def test_an_agent_without_persona(world: World) -> None:
    """A fork of it needs one that is named."""
    agent = world.worked(world.started(persona=""))
    assert "has no persona" in refusal(world, f"/api/agents/{agent}/fork", {"goal": GOAL})[1]

    of = world.ends(forked(world, agent, persona=world.persona()))
    assert world.agent(of["successor_id"])["persona"] == "developer-con-1"
    undisturbed(world, agent)


def test_a_dead_agent_is_forked_from_its_thread(world: World) -> None:
    """Its own persona stays free for a successor."""
    agent = world.worked(world.started())
    world.api("POST", f"/api/agents/{agent}/stop")
    of = world.ends(forked(world, agent))

    assert world.agent(of["successor_id"])["forked_from"] == agent
    handed = world.ends(world.hand_off(agent, **{"from": "thread"}))
    assert world.agent(handed["successor_id"])["persona"] == "developer-con-1"


@pytest.mark.parametrize("body", [{}, {"goal": ""}, {"goal": "  \n"}, {"goal": GOAL, "x": 1}, {"goal": GOAL, "worktree": 3}])  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused(world: World, body: Any) -> None:
    """With 400, and nothing begins."""
    agent = world.worked(world.started())

    assert refusal(world, f"/api/agents/{agent}/fork", body)[0] == 400
    assert world.api("GET", "/api/handoffs")["handoffs"] == []
    assert refusal(world, "/api/agents/99/fork", {"goal": GOAL})[0] == 404


@pytest.mark.parametrize("point", ["worktree:before", "worktrees._run", "worktree:after", "write:after", "create:after", "prompt:after"])  # fmt: skip
def test_a_killed_server_forks_once(world: World, point: str) -> None:
    """Wherever it is killed: one worktree, one second agent, one prompt; the first one works on."""
    work = repository(world)
    agent = world.worked(world.started())
    world.kill()
    world.serve(at=point)
    id = forked(world, agent, worktree=True)
    world.kill_at_point()
    world.serve()
    of = world.ends(id)

    assert len(world.prompts("Begin your answer with this line")) == 1
    assert len({x["session"] for x in world.seen("started")}) == 2
    assert len(git(work, "worktree", "list").splitlines()) == 2
    assert len(git(work, "branch", "--list", "fork/*").splitlines()) == 1
    assert [p["slug"] for p in world.api("GET", "/api/personas")["personas"]] == ["developer-con-1", "developer-con-2"]  # fmt: skip
    assert of["attempt"] == 1
    undisturbed(world, agent)


def test_an_agent_is_forked_twice_and_handed_off(world: World) -> None:
    """A fork holds up neither another one nor the agent's own handoff, nor its stop."""
    agent = world.worked(world.started())
    ids = [forked(world, agent), forked(world, agent)]
    personas = {world.agent(world.ends(id)["successor_id"])["persona"] for id in ids}
    assert personas == {"developer-con-2", "developer-con-3"}

    of = world.ends(world.hand_off(agent))
    assert world.agent(of["successor_id"])["previous_agent_id"] == agent
    ((first, second),) = world.api("GET", "/api/lineage/developer-con-1")["chains"]
    assert [first["agent"]["id"], second["agent"]["id"]] == [agent, of["successor_id"]]
    assert second["handoff"]["id"] == of["id"]


def test_the_forked_agent_is_handed_off_like_any_other(world: World) -> None:
    """Its successor has its persona, and is no fork."""
    agent = world.worked(world.started())
    second = world.ends(forked(world, agent))["successor_id"]
    of = world.ends(world.hand_off(second))

    third = world.agent(of["successor_id"])
    assert (third["persona"], third["previous_agent_id"], third["forked_from"]) == ("developer-con-2", second, None)  # fmt: skip
    undisturbed(world, agent)


def test_a_fork_is_cancelled(world: World) -> None:
    """The first agent was never part of it; the second persona is free again."""
    agent = world.worked(world.started())
    world.script(prompt=[["say", "no"]])
    id = forked(world, agent)
    assert world.failed(id) == "not_acknowledged"
    world.api("POST", f"/api/handoffs/{id}/cancel")
    assert world.handoff(id)["state"] == "cancelled"
    second = world.handoff(id)["successor_id"]
    world.api("POST", f"/api/agents/{second}/stop")
    assert world.started(persona="developer-con-2")


def test_the_command(world: World) -> None:
    """`tasuki agent fork` shows the steps, and refuses a vague goal with exit code 3."""
    repository(world)
    agent = str(world.worked(world.started()))
    assert "Be specific" in world.tasuki("agent", "fork", agent, "--goal", "fix", code=3)
    said = world.tasuki("agent", "fork", agent, "--goal", GOAL, "--worktree", "--watch")
    assert f"of agent {agent} begins, as developer-con-2 in " in said
    beside = world.folder / "beside"
    said = world.tasuki("agent", "fork", agent, "--goal", GOAL, "--worktree", str(beside), "--json")
    assert '"fork":true' in said.replace(" ", "")
    retry_until(beside.is_dir)


# -- the worktree alone ------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "app"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def test_a_worktree_that_a_killed_git_left_is_made_again(project: Path) -> None:
    """Git marks it as being made; a branch without a worktree is used, too."""
    plan = plan_worktree(str(project), "", "dev-con-2")
    make_worktree(str(project), plan)
    git(project, "worktree", "lock", "--reason", "initializing", plan.folder)
    Path(plan.folder, "a.py").unlink()

    make_worktree(str(project), plan)
    assert Path(plan.folder, "a.py").read_text() == "1\n"
    assert make_worktree(str(project), plan) == f"{plan.folder} is there"
    git(project, "worktree", "remove", plan.folder)
    make_worktree(str(project), plan)
    assert git(Path(plan.folder), "branch", "--show-current") == "fork/dev-con-2"


def test_a_branch_of_that_name_stays_as_it_is(project: Path) -> None:
    """The fork gets the next free name."""
    git(project, "branch", "fork/dev-con-2")
    assert plan_worktree(str(project), "", "dev-con-2").branch == "fork/dev-con-2-2"


def test_no_hook_of_the_repository_runs(project: Path) -> None:
    """Git would run `post-checkout` in the new folder."""
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    plan = plan_worktree(str(project), "", "dev-con-2")
    make_worktree(str(project), plan)
    assert list(Path(plan.folder).glob("hook-ran")) == []


def test_git_that_fails_is_quoted(project: Path) -> None:
    """The step fails with git's own words; what was there stays."""
    plan = plan_worktree(str(project), "", "dev-con-2")
    Path(plan.folder).mkdir()
    Path(plan.folder, "mine.txt").write_text("mine")
    with pytest.raises(StepFailed, match="is no worktree on fork/dev-con-2"):
        make_worktree(str(project), plan)
    assert Path(plan.folder, "mine.txt").read_text() == "mine"
    blocked = WorktreePlan(str(project / "a.py" / "below"), "fork/x")
    with pytest.raises(StepFailed, match="git worktree failed"):
        make_worktree(str(project), blocked)


def test_uncommitted_files_are_named_up_to_a_bound(project: Path) -> None:
    """All are counted."""
    assert describe_uncommitted(str(project)) == ""
    for number in range(25):
        (project / f"n{number:02}.txt").write_text("x")
    assert describe_uncommitted(str(project)).endswith("n19.txt and 5 more")
