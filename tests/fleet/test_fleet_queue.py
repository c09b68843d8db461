"""Goals that wait for a persona: typed once each, in order, once its agent is idle."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import Refused, World, refusal
from waiting import retry_until

from tasuki.install.hook_script import get_script_path

GOALS = ("sort the imports", "rename the module", "write the notes")


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """A fleet with its hooks."""
    made = World(tmp_path, database_url)
    made.serve()
    made.install()
    yield made
    made.close()


def queue(world: World, slug: str, *texts: str) -> list[int]:
    """Queue goals; the ids of all that wait."""
    for text in texts:
        world.api("POST", f"/api/personas/{slug}/queue", {"text": text})
    return [goal["id"] for goal in shown(world, slug)["goals"]]


def shown(world: World, slug: str) -> Any:
    """A queue as the API tells it."""
    return world.api("GET", f"/api/personas/{slug}/queue")


def typed(world: World, slug: str) -> list[str]:
    """The goals that were typed, in order."""
    return [goal["text"] for goal in reversed(shown(world, slug)["typed"])]


def test_goals_are_typed_one_after_the_other(world: World) -> None:
    """The next is typed once the turn of the last one ended; the order can be changed before."""
    slug = world.persona()
    first, second, third = queue(world, slug, *GOALS)
    world.api("PATCH", f"/api/personas/{slug}/queue/{third}", {"order": "first"})
    world.api("PATCH", f"/api/personas/{slug}/queue/{second}", {"text": "rename the package"})
    agent = world.started(persona=slug)
    retry_until(lambda: len(typed(world, slug)) == 3, 60)
    world.idle(agent)
    prompts = [x["text"] for x in world.seen("prompt") if "skill" not in x["text"]]

    assert typed(world, slug) == ["write the notes", "sort the imports", "rename the package"]
    assert [x for x in prompts if x in typed(world, slug)] == typed(world, slug)
    assert shown(world, slug)["goals"] == []
    assert first


def test_a_paused_queue_waits(world: World) -> None:
    """Nothing is typed while it is paused; what is removed meanwhile never is."""
    slug = world.persona()
    world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": True})
    first, *_ = queue(world, slug, *GOALS)
    agent = world.started(persona=slug)
    world.worked(agent, "say hello")
    before = shown(world, slug)
    world.api("DELETE", f"/api/personas/{slug}/queue/{first}")
    world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": False})
    retry_until(lambda: len(typed(world, slug)) == 2, 60)

    assert [goal["state"] for goal in before["goals"]] == ["waiting"] * 3
    assert typed(world, slug) == list(GOALS[1:])
    assert world.prompts(GOALS[0]) == []


def test_a_goal_that_cannot_be_typed_stops_the_queue(world: World) -> None:
    """One that would end the program: the queue says why, nothing is typed, and an edited one goes on."""
    slug = world.persona()
    agent = world.started(persona=slug)
    (id,) = queue(world, slug, "exit")
    stopped = retry_until(lambda: shown(world, slug)["stopped"], 30)
    state = shown(world, slug)["goals"][0]["state"]
    world.api("PATCH", f"/api/personas/{slug}/queue/{id}", {"text": GOALS[0]})
    world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": False})
    retry_until(lambda: typed(world, slug), 60)

    assert "ends some programs" in stopped
    assert (state, world.agent(agent)["ended_at"]) == ("waiting", None)
    assert typed(world, slug) == [GOALS[0]]


def test_a_goal_waits_while_somebody_types(world: World) -> None:
    """The queue is not stopped by that; once the draft stands still the goal is typed, and the draft stays."""
    slug = world.persona()
    agent = world.started(persona=slug)
    world.idle(agent)
    pane = world.agent(agent)["pane"]
    world.tmux("send-keys", "-t", pane, "-l", "half")
    queue(world, slug, GOALS[0])
    for _ in range(12):
        world.tmux("send-keys", "-t", pane, "-l", " more")
        time.sleep(0.4)
    meanwhile = (typed(world, slug), shown(world, slug)["stopped"])
    retry_until(lambda: typed(world, slug), 60)

    assert meanwhile == ([], "")
    assert typed(world, slug) == [GOALS[0]]
    retry_until(lambda: "❯\u00a0half more more" in world.screen(pane))


def test_an_agent_that_asks_gets_no_goal(world: World) -> None:
    """While it waits for an answer the queue waits, too; then it goes on."""
    slug = world.persona()
    world.rules({"match": "ask me", "do": [["ask", "May I?"], ["say", "thanks"]]})
    agent = world.started(persona=slug)
    world.api("POST", f"/api/agents/{agent}/send", {"text": "ask me"})
    retry_until(lambda: world.agent(agent)["state"] == "waiting")
    queue(world, slug, GOALS[0])
    waited = shown(world, slug)["goals"][0]["state"]
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "y"})
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "Enter"})
    retry_until(lambda: typed(world, slug) and world.prompts(GOALS[0]), 60)

    assert waited == "waiting"
    assert len(world.prompts(GOALS[0])) == 1


def test_the_queue_goes_on_with_the_successor(world: World) -> None:
    """Nothing is typed while a handoff is under way; what waited reaches the successor, once."""
    slug = world.persona()
    world.script(
        document=[["write", "{path}", "## What I was working on\n\nThe client."], ["say", "ok"]]
    )
    agent = world.worked(world.started(persona=slug))
    world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": True})
    queue(world, slug, *GOALS[:2])
    id = world.hand_off(agent)
    world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": False})
    of = world.ends(id)
    retry_until(lambda: len(typed(world, slug)) == 2, 60)
    retry_until(lambda: all(world.prompts(goal) for goal in GOALS[:2]))
    successor = world.agent(of["successor_id"])
    sessions = {x["session"] for goal in GOALS[:2] for x in world.prompts(goal)}

    assert sessions == {successor["session"]}
    assert [len(world.prompts(goal)) for goal in GOALS[:2]] == [1, 1]


@pytest.mark.parametrize("point", ["QueueRunner._claim", "TmuxPanes.paste", "TmuxPanes.enter", "QueueRunner._deliver"])  # fmt: skip
def test_a_killed_server_types_no_goal_twice(world: World, point: str) -> None:
    """Killed behind the claim, the paste, Enter, and before the outcome is recorded: each goal is typed once."""
    slug = world.persona()
    world.worked(world.started(persona=slug))
    world.kill()
    world.serve(at=point)
    queue(world, slug, *GOALS[:2])
    world.kill_at_point()
    world.serve()
    retry_until(lambda: len(typed(world, slug)) == 2, 60)
    retry_until(lambda: all(world.prompts(goal) for goal in GOALS[:2]))

    assert [len(world.prompts(goal)) for goal in GOALS[:2]] == [1, 1]
    assert typed(world, slug) == list(GOALS[:2])


def test_an_uncertain_goal_stops_the_queue(world: World) -> None:
    """It says so with an alert; the operator says what became of it, and the queue goes on."""
    slug = world.persona()
    agent = world.worked(world.started(persona=slug))
    script = get_script_path(world.data / "fleet")
    hook = script.read_text()
    script.write_text("#!/bin/sh\nexit 0\n")  # no event comes any more
    world.rules({"match": GOALS[0], "do": [["sleep", 60]]})
    thread = Path(world.agent(agent)["thread"])
    thread.unlink()
    first, second = queue(world, slug, *GOALS[:2])
    retry_until(lambda: shown(world, slug)["stopped"], 60)
    stopped = shown(world, slug)
    script.write_text(hook)
    with pytest.raises(Refused) as refused:
        world.api("PATCH", f"/api/personas/{slug}/queue", {"paused": False})
    alerts = world.api("GET", "/api/alerts")["alerts"]
    settled = world.api("PATCH", f"/api/personas/{slug}/queue/{first}", {"order": "arrived"})

    assert [goal["state"] for goal in stopped["goals"]] == ["uncertain", "waiting"]
    assert f"Goal {first}" in stopped["stopped"]
    assert (refused.value.status, "whether it arrived" in refused.value.body["error"]) == (
        400,
        True,
    )
    assert [one["title"] for one in alerts if "queue" in one["title"]] == [f"The queue of {slug} stopped"]  # fmt: skip
    assert (settled["stopped"], [goal["id"] for goal in settled["goals"]]) == ("", [second])
    assert len(world.prompts(GOALS[0])) == 1
    assert world.prompts(GOALS[1]) == []


def test_a_claim_of_an_agent_that_ended_meanwhile_stops_the_queue(world: World) -> None:
    """Nobody can say whether it was typed: the operator decides, and its next agent gets it again."""
    slug = world.persona()
    agent = world.worked(world.started(persona=slug))
    pane = world.agent(agent)["pane"]
    world.kill()
    world.serve(at="QueueRunner._claim")
    (goal,) = queue(world, slug, GOALS[0])
    world.kill_at_point()
    world.tmux("kill-pane", "-t", pane)
    world.serve()
    retry_until(lambda: shown(world, slug)["stopped"], 60)
    world.api("PATCH", f"/api/personas/{slug}/queue/{goal}", {"order": "again"})
    world.started(persona=slug)
    retry_until(lambda: typed(world, slug), 60)

    assert len(world.prompts(GOALS[0])) == 1


def test_what_cannot_be_queued_is_refused(world: World) -> None:
    """An empty goal, a persona that is not there, a goal that is not there."""
    slug = world.persona()
    path = f"/api/personas/{slug}/queue"

    assert refusal(world, path, {"text": "  "}) == (400, "There is no goal. Say what the agent should accomplish.")  # fmt: skip
    assert refusal(world, "/api/personas/nobody-x-1/queue", {"text": "x"})[0] == 404


def test_the_command_line_shows_and_changes_a_queue(world: World) -> None:
    """Goals are added, put in front, removed; the queue is paused and resumed."""
    slug = world.persona()
    for text in GOALS:
        world.tasuki("persona", "queue", slug, "--add", text)
    first, _, third = (goal["id"] for goal in shown(world, slug)["goals"])
    world.tasuki("persona", "queue", slug, "--first", str(third), "--remove", str(first))
    said = world.tasuki("persona", "queue", slug, "--pause")
    resumed = world.tasuki("persona", "queue", slug, "--resume")

    assert "Paused" in said
    assert "Paused" not in resumed
    assert said.index(GOALS[2]) < said.index(GOALS[1])
    assert GOALS[0] not in said
