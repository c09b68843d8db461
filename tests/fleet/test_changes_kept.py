"""Where agents begin, and the summaries of their work, in a whole fleet with real tmux and git."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import Postgres
from fleets import World
from machines import host_of, machines, seen_by
from waiting import retry_until
from work_trees import WorkFolder

from tasuki.fleet.changes.keeper import describe_work
from tasuki.fleet.store.models import WorkSummary

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"


@pytest.fixture
def repository(tmp_path: Path) -> WorkFolder:
    """The repository in which agents work."""
    return WorkFolder(tmp_path / "repository")


def summary(world: World, agent: int, **values: Any) -> Any:
    """The summary of an agent's work, once it has these values."""

    def find() -> Any:
        known = world.agent(agent)["changes"]
        return known if known and values.items() <= known.items() else None

    return retry_until(find, 40)


def test_the_start_and_the_work_of_an_agent(world: World, repository: WorkFolder) -> None:
    """Commit and branch are recorded at the start; after a turn the summary has what it changed."""
    command = f"cd {repository.folder} && echo more >> app.py && echo new > new.py"
    world.script(change=[["run", command], ["say", "done"]])
    agent = world.started(cwd=str(repository.folder))
    first = world.agent(agent)
    world.worked(agent, "Please change it")
    known = summary(world, agent, files=2)
    changes = world.api("GET", f"/api/agents/{agent}/changes?diff=all")

    assert (repository.begun, "main") == (first["begun_commit"], first["begun_branch"])
    assert ("main", 2, 0, 0, "") == (
        known["branch"], known["added"], known["removed"], known["commits"], known["problem"],
    )  # fmt: skip
    assert ["app.py", "new.py"] == [file["path"] for file in changes["files"]]
    assert "+more" in changes["diffs"][0]["lines"]
    assert repository.begun == changes["base"]


def test_the_log_has_the_newest_work_alone(world: World, repository: WorkFolder) -> None:
    """Each change is a line of the log, so that pages notice it, in place of the one before, also after a restart."""
    agent = world.started(cwd=str(repository.folder))
    summary(world, agent, files=0)
    for number in (1, 2):
        repository.write(f"{number}.txt", "x\n")
        world.worked(agent, f"Change number {number}")
        summary(world, agent, files=number)
        world.kill()
        world.serve()
    lines = [line for line in world.log() if line["kind"] == "changes"]

    assert ["main: +2 −0 in 2 files"] == [line["text"] for line in lines]
    assert lines[0]["agent_id"] == agent


def test_a_successor_begins_where_its_predecessor_ended(
    world: World, repository: WorkFolder
) -> None:
    """A successor has a start of its own; the work before it is its predecessor's."""
    agent = world.worked(world.started(cwd=str(repository.folder)))
    repository.write("app.py", "1\n")
    second = repository.commit("By the first agent")
    successor = world.ends(world.hand_off(agent))["successor_id"]
    changes = [world.api("GET", f"/api/agents/{id}/changes") for id in (agent, successor)]

    assert second == world.agent(successor)["begun_commit"]
    assert [1, 0] == [one["commit_count"] for one in changes]
    since = world.api("GET", f"/api/agents/{agent}/changes?since=handoff")
    assert "since" in since["note"]


def test_an_adopted_and_an_anonymous_agent(world: World, repository: WorkFolder) -> None:
    """Where an agent begins that somebody else started is recorded soon after, too."""
    world.tmux("new-session", "-d", "-s", "mine", "-c", str(repository.folder), "exec claude")
    rows = retry_until(lambda: world.api("GET", "/api/agents")["agents"], 30)
    agent = rows[0]["id"]
    retry_until(lambda: world.agent(agent)["begun_commit"] == repository.begun, 30)
    repository.write("app.py", "1\n")
    repository.commit("Its first")
    world.tasuki("agent", "adopt", world.agent(agent)["pane"])

    assert repository.begun == world.agent(agent)["begun_commit"]
    assert 1 == world.api("GET", f"/api/agents/{agent}/changes")["commit_count"]


def test_the_command_that_runs(world: World, repository: WorkFolder) -> None:
    """While a turn runs a command, the summary names it, without secrets, and not its shell."""
    world.script(stall=[["run", f"sleep 61.5; : {SECRET}"], ["say", "done"]])
    agent = world.started(cwd=str(repository.folder))
    world.api("POST", f"/api/agents/{agent}/send", {"text": "Now stall"})
    known = summary(world, agent, command="sleep 61.5")

    assert "main" == known["branch"]
    assert SECRET not in str(world.log())


def test_no_repository(world: World) -> None:
    """In a folder without a repository a sentence says so, and the log has no line of it."""
    agent = world.worked(world.started())
    known = retry_until(lambda: world.agent(agent)["changes"], 30)

    assert "is in no git repository" in known["problem"]
    assert "is in no git repository" in world.api("GET", f"/api/agents/{agent}/changes")["problem"]
    assert [] == [line for line in world.log() if line["kind"] == "changes"]


def test_the_command_line(world: World, repository: WorkFolder) -> None:
    """`tasuki agent changes` says branch, commits and files, and with --diff every line."""
    agent = world.started(cwd=str(repository.folder))
    repository.write("app.py", f"one\ntwo\n{SECRET}\n")
    repository.commit("Shorten it")
    repository.write("loose.txt", "x\n")
    said = world.tasuki("agent", "changes", str(agent))
    whole = world.tasuki("agent", "changes", str(agent), "--diff")
    plain = world.tasuki("agent", "changes", str(agent), "--json")

    assert "on main" in said
    assert "Shorten it" in said
    assert "app.py" in said
    assert "+two" not in said
    assert "-three" in whole
    assert "+x" in whole
    assert SECRET not in whole
    assert '"commit_count": 1' in plain


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"branch": "main"}, "main: nothing changed"),
        ({"branch": "fix", "files": 1, "added": 1200, "removed": 1}, "fix: +1,200 −1 in 1 file"),
        ({"files": 6, "added": 120, "removed": 14, "commits": 2},
         "+120 −14 in 6 files, 2 commits"),
        ({"branch": "b", "commits": 1}, "b: 1 commit"),
        ({"problem": "No."}, "No."),
        ({}, "nothing changed"),
    ],
)  # fmt: skip
def test_a_line_for_a_summary(values: dict[str, Any], text: str) -> None:
    """Branch, lines, files and commits, each only where there are some."""
    assert text == describe_work(WorkSummary(**values))


@pytest.fixture
def hosts(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[World, World]]:
    """Two hosts that see each other."""
    with machines(tmp_path, postgres) as made:
        one, two = made.add(), made.add()
        seen_by(one, host_of(two))
        seen_by(two, host_of(one))
        yield one, two


def test_work_on_another_host(hosts: tuple[World, World], repository: WorkFolder) -> None:
    """What an agent of another host changed is read there, whole, and by the key of a file."""
    one, two = hosts
    agent = one.started(cwd=str(repository.folder), host=host_of(two))
    repository.write("app.py", f"one\n{SECRET}\n")
    changes = one.api("GET", f"/api/agents/{agent}/changes?diff=all")
    key = changes["files"][0]["key"]
    alone = one.api("GET", f"/api/agents/{agent}/changes?diff={key}")
    one.worked(agent, "Please go on")

    assert host_of(two) == one.agent(agent)["host"]
    assert ["app.py"] == [file["path"] for file in changes["files"]]
    assert SECRET not in str(changes)
    assert changes["diffs"] == alone["diffs"]
    assert 1 == summary(one, agent, files=1)["added"]
