"""What the operator sees of an agent's pane without a terminal, and the keys that are pressed there."""

import pytest
from fleets import Refused, World, refusal
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""


def screen(world: World, id: int) -> str:
    """What the pane of an agent shows, as the API tells it."""
    return str(world.api("GET", f"/api/agents/{id}/screen")["screen"])


def test_a_pane_is_seen_without_secrets(world: World) -> None:
    """The screen has what was typed, and a key on it is replaced."""
    agent = world.worked(world.started(), f"Use {KEY} for the upload")
    retry_until(lambda: "for the upload" in screen(world, agent))

    assert KEY not in screen(world, agent)
    assert KEY[20:60] not in screen(world, agent)


def test_a_key_answers_what_the_agent_asks(world: World) -> None:
    """A question in a dialog is answered by a key; the log has which."""
    world.script(choose=[["ask", "Which one?"], ["say", "Done as you said."]])
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/send", {"text": "choose one"})
    retry_until(lambda: world.agent(agent)["state"] == "waiting", 20)
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "Enter"})
    world.idle(agent)

    assert "The key Enter was pressed" in str(world.log())


@pytest.mark.parametrize(
    "key", ["", "F13", "C-d", "kill-server", "Enter; kill-server", "x" * 300, "é"]
)
def test_other_keys_are_refused(world: World, key: str) -> None:
    """Only the keys that dialogs take can be pressed: nothing else reaches tmux."""
    agent = world.started()
    status, _ = refusal(world, f"/api/agents/{agent}/keys", {"key": key})

    assert status == 400
    assert world.idle(agent)


def test_whose_pane_is_not_ours(world: World) -> None:
    """Nothing is pressed for an agent that ended, or that tasuki did not start; its screen is not asked for."""
    agent = world.started()
    world.sql(f"UPDATE agents SET adopted = 0, ordered_at = NULL WHERE id = {agent}")
    anonymous = refusal(world, f"/api/agents/{agent}/keys", {"key": "Enter"})
    world.sql(f"UPDATE agents SET adopted = 1 WHERE id = {agent}")
    world.tmux("kill-pane", "-t", world.agent(agent)["pane"])
    retry_until(lambda: world.agent(agent)["ended_at"], 20)
    with pytest.raises(Refused, match="400"):
        screen(world, agent)

    assert "is anonymous" in anonymous[1]
    assert refusal(world, f"/api/agents/{agent}/keys", {"key": "Enter"}) == (
        400,
        "Agent is not active",
    )
