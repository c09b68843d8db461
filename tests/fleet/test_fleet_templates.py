"""Goals that are used again: their fields, whom their agents work as, and what cannot be one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import Refused, World, refusal
from waiting import retry_until

TEMPLATE = {"name": "Fix an issue", "goal": 'Fix {issue} in {module}, not {"a": 1}'}


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """A fleet with its hooks."""
    made = World(tmp_path, database_url)
    made.serve()
    made.install()
    yield made
    made.close()


def test_an_agent_starts_with_its_fields_filled_in(world: World) -> None:
    """Each placeholder is a field; what is filled in is never taken for one; braces of code stay."""
    made = world.api("POST", "/api/templates", {**TEMPLATE, "folder": str(world.work)})
    fields = {"issue": "the {module} of 7", "module": "parser"}
    agent = world.api("POST", f"/api/templates/{made['id']}/start", {"fields": fields})
    retry_until(lambda: world.prompts("the {module} of 7"))
    used = world.api("GET", f"/api/templates/{made['id']}")["used_at"]

    assert made["fields"] == ["issue", "module"]
    assert agent["goal"] == 'Fix the {module} of 7 in parser, not {"a": 1}'
    assert agent["cwd"] == str(world.work)
    assert used


def test_fields_must_be_filled_in(world: World) -> None:
    """A missing field, an unknown one and a missing folder are refused; nothing is started."""
    id = world.api("POST", "/api/templates", TEMPLATE)["id"]
    path = f"/api/templates/{id}/start"

    assert refusal(world, path, {"fields": {"issue": "x"}}) == (400, "Fill in: module.")
    assert "no field of" in refusal(world, path, {"fields": {"issue": "x", "module": "y", "z": "z"}})[1]  # fmt: skip
    assert "whole path" in refusal(world, path, {"fields": {"issue": "x", "module": "y"}})[1]
    assert world.api("GET", "/api/agents")["agents"] == []


def test_a_role_is_the_first_free_persona(world: World) -> None:
    """Where all of a role work, the start is refused with the way on."""
    first, second = world.persona(), world.persona()
    body = {"name": "Review", "goal": "Review it", "role": "developer", "folder": str(world.work)}
    id = world.api("POST", "/api/templates", body)["id"]
    agents = [world.api("POST", f"/api/templates/{id}/start") for _ in range(2)]

    assert [agent["persona"] for agent in agents] == [first, second]
    assert "all of them work" in refusal(world, f"/api/templates/{id}/start", {})[1]


def test_templates_are_changed_and_removed(world: World) -> None:
    """Omitted fields stay; a name is there once; what is no template is refused."""
    id = world.api("POST", "/api/templates", TEMPLATE)["id"]
    changed = world.api("PATCH", f"/api/templates/{id}", {"goal": "Fix it"})
    twice = refusal(world, "/api/templates", TEMPLATE)
    both = refusal(world, "/api/templates", {**TEMPLATE, "name": "x", "role": "a", "persona": "b"})
    world.api("DELETE", f"/api/templates/{id}")
    with pytest.raises(Refused) as gone:
        world.api("GET", f"/api/templates/{id}")

    assert (changed["name"], changed["goal"], changed["fields"]) == ("Fix an issue", "Fix it", [])
    assert "already" in twice[1]
    assert "not both" in both[1]
    assert gone.value.status == 400
    assert refusal(world, "/api/templates", {"name": "x", "goal": " "})[0] == 400


def test_the_command_line_keeps_and_starts_templates(world: World) -> None:
    """They are added, listed, started by name with `--set`, and removed."""
    world.tasuki("template", "add", "fix", "Fix {issue}")
    listed = world.tasuki("template", "list")
    said = world.tasuki("template", "start", "fix", "--set", "issue=the parser")
    refused = world.tasuki("template", "start", "fix", code=1)
    world.tasuki("template", "remove", "fix")

    assert "issue" in listed
    assert world.agent(int(said.split()[0]))["goal"] == "Fix the parser"
    assert "Fill in: issue." in refused
    assert "No templates yet" in world.tasuki("template", "list")
