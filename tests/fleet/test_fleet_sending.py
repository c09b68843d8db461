"""A text for an agent is typed once, whatever happens to the server and to who asked."""

import json
import threading
import urllib.request
from typing import Any

from fleets import World
from waiting import retry_until

from tasuki.install.hook_script import get_script_path


def send(world: World, agent: int, text: str, key: str, answers: list[Any]) -> None:
    """Ask for a text to be typed under a key; the status and what is told."""
    token = (world.data / "fleet" / "token").read_text().strip()
    request = urllib.request.Request(
        f"http://{world.address()}/api/agents/{agent}/send",
        json.dumps({"text": text}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": key},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answers.append((answer.status, json.loads(answer.read())))
    except urllib.error.HTTPError as error:
        answers.append((error.code, json.loads(error.read())))


def test_a_text_is_typed_once_under_its_key(world: World) -> None:
    """Asked for again with the same key, it is proven and not typed again; another text needs another key."""
    agent = world.started()
    answers: list[Any] = []
    for text in ("say hello", "say hello", "say something else"):
        send(world, agent, text, "one", answers)
    world.idle(agent)
    send(world, agent, "say hello", "two", answers)

    assert [(status, told.get("state")) for status, told in answers] == [
        (200, "proven"), (200, "proven"), (400, None), (200, "proven"),
    ]  # fmt: skip
    assert "another text" in answers[2][1]["error"]
    retry_until(lambda: len(world.prompts("say hello")) == 2, 10)
    assert world.prompts("something else") == []


def test_an_unsent_draft_is_not_sent(world: World) -> None:
    """What the user typed is told, and back in the input once the text was sent."""
    agent = world.started()
    pane = world.agent(agent)["pane"]
    world.tmux("send-keys", "-t", pane, "-l", "half a thought")
    retry_until(lambda: "half a thought" in world.screen(pane))
    told = world.api("POST", f"/api/agents/{agent}/send", {"text": "say hello"})

    assert (told["state"], told["leftover"]) == ("proven", "half a thought")
    assert [x["text"] for x in retry_until(lambda: world.prompts("hello"))] == ["say hello"]
    retry_until(lambda: "❯\u00a0half a thought" in world.screen(pane))


def test_a_command_is_told_as_what_it_did(world: World) -> None:
    """A busy agent gets none; what would end the program is refused; a goal of that kind is words at a start."""
    agent = world.started(goal="!touch it")
    world.rules({"match": "take long", "do": [["sleep", 3], ["say", "done"]]})
    compacted = world.api("POST", f"/api/agents/{agent}/send", {"text": "/compact"})
    world.api("POST", f"/api/agents/{agent}/send", {"text": "take long"})
    others = [
        world.api("POST", f"/api/agents/{agent}/send", {"text": t}) for t in ("/clear", "exit")
    ]

    assert (compacted["state"], "it compact" in compacted["why"]) == ("proven", True)
    assert [(one["state"], one["why"].split()[0]) for one in others] == [
        ("refused", "it"), ("refused", "'exit'"),
    ]  # fmt: skip
    assert [x["text"] for x in world.prompts("!touch")] == ["Your task:\n\n!touch it"]


def test_a_server_that_ends_while_it_types_calls_it_uncertain(world: World) -> None:
    """What was typed and not yet proven is `uncertain`, no error that asks to try again; the key keeps it from twice."""
    agent = world.started()
    get_script_path(world.data / "fleet").write_text(
        "#!/bin/sh\nexit 0\n"
    )  # no event comes any more
    answers: list[Any] = []
    asking = threading.Thread(target=send, args=(world, agent, "say hello", "one", answers))
    asking.start()
    retry_until(lambda: world.prompts("say hello"), 20)
    world.kill(15)
    asking.join(30)
    world.serve()
    send(world, agent, "say hello", "one", answers)

    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["state"] == "uncertain"
    assert answers[1][1]["state"] in ("proven", "uncertain")  # the agent's own thread may tell
    assert len(world.prompts("say hello")) == 1


def test_a_server_that_is_killed_while_it_types_is_told_with_the_way_on(world: World) -> None:
    """The command line names the key under which it can be asked again."""
    agent = world.started()
    get_script_path(world.data / "fleet").write_text("#!/bin/sh\nexit 0\n")
    said: list[str] = []
    asking = threading.Thread(
        target=lambda: said.append(
            world.tasuki("agent", "send", str(agent), "say hello", "--key", "k7", code=1)
        )
    )
    asking.start()
    retry_until(lambda: world.prompts("say hello"), 20)
    world.kill()
    asking.join(30)

    assert "uncertain" in said[0]
    assert "--key k7" in said[0]
