"""A question that a model answers: from passages, with references, in the light of later entries."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from command_line import SECRET, World, chain, work
from fakes.model_server import ModelRequest, ModelServer, ModelStep
from selection import by_default

QUESTION = "why does the upload stall?"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh world."""
    return World(tmp_path)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A scripted model."""
    with ModelServer() as server:
        yield server


def number(request: ModelRequest, words: str) -> int:
    """The number of the passage that holds some words."""
    blocks = "\n".join(turn.text for turn in request.turns).split("[P")[1:]
    return next(int(block.partition("]")[0]) for block in blocks if words in block)


def ask(world: World, model: ModelServer, spec: str, *more: str) -> "CompletedProcess[str]":
    """`tasuki read SPEC QUESTION --author model`, with the scripted model."""
    settings = world.home.parent / "model.toml"
    settings.write_text(
        f'model = "local/scripted"\n[providers.local]\nbase_url = "{model.url}/v1"\n'
    )
    return world.run("read", spec, *(more or (QUESTION,)), "--author", "model",
                     TASUKI_CONFIG=str(settings))  # fmt: skip


def answer(*sentences: tuple[str, list[int]], unanswered: str = "") -> str:
    """A model's answer."""
    items = [{"text": text, "passages": numbers} for text, numbers in sentences]
    return json.dumps({"answer": items, "unanswered": unanswered})


def test_an_answer_cites_the_entries_it_rests_on(world: World, model: ModelServer) -> None:
    """Sentences end in references that `tasuki read` opens; what it cost is told."""
    path = world.thread(work())
    model.default = step(
        lambda request: answer(
            ("The upload stalls because the gateway's keepalive is off.", [number(request, "off")])
        )
    )
    done = ask(world, model, str(path))

    assert done.returncode == 0, done.stderr
    assert f"- The upload stalls because the gateway's keepalive is off. [{path}#5]" in done.stdout
    assert "Answered by local/scripted" in done.stderr
    assert SECRET not in json.dumps([request.body for request in model.log])
    assert SECRET not in done.stdout + done.stderr


def step(reply: Any) -> Any:
    """A rule that answers with a function of the request."""
    from fakes.model_server import ModelRule

    return ModelRule("", (ModelStep(reply=reply),))


def test_later_entries_are_put_before_the_model(world: World, model: ModelServer) -> None:
    """What revises the first answer is looked for and shown, and the last answer counts."""
    builder = work()
    for n in range(30):
        builder.assistant(f"Upload {n}: the upload stalls in run {n} because of the upload client.")
    builder.assistant("In the end the stall was caused by the load balancer, not by the gateway.")
    path = world.thread(builder)

    def reply(request: ModelRequest) -> str:
        if len(request.turns) > 2:
            where = number(request, "load balancer")
            return answer(
                ("The stall was caused by the load balancer, not by the gateway.", [where])
            )
        return answer(("The upload stalls because the client timeout is 60 s.",
                       [number(request, "client timeout is 60 s")]))  # fmt: skip

    model.default = step(reply)
    done = ask(world, model, str(path))

    assert len(model.log) == 2
    assert "Later entries of the record may revise this" in model.log[1].prompt
    assert "load balancer, not by the gateway. [" in done.stdout
    assert "60 s" not in done.stdout


def test_what_the_passages_do_not_bear_is_dropped(world: World, model: ModelServer) -> None:
    """Invented values, wrong citations and sentences without one never reach the answer."""
    path = world.thread(work())
    model.default = step(
        lambda request: answer(
            ("The upload stalls because the gateway's keepalive is off.", [number(request, "off")]),
            ("Set `UPLOAD_MAGIC` to 7.", [1]),
            ("Bananas need tropical rain and a great deal of patience.", [1]),
            ("Everything is fine with the upload.", []),
        )
    )
    done = ask(world, model, str(path))

    assert len(done.stdout.splitlines()) == 1
    assert "`UPLOAD_MAGIC` does not stand in what it cites" in done.stderr
    assert "what it cites does not speak of this" in done.stderr
    assert "it cites no passage" in done.stderr


@pytest.mark.parametrize(
    "text", by_default(["I do not know.", "", answer(("Bananas.", [99]))], "I do not know.")
)
def test_a_model_that_fails_leaves_the_passages(
    world: World, model: ModelServer, text: str
) -> None:
    """The reason is told and the passages are shown; with `strict` it is an error."""
    path = world.thread(work())
    model.default = step(lambda request: text)
    done = ask(world, model, str(path))

    assert done.returncode == 0
    assert "Showing the passages instead." in done.stderr
    assert "keepalive is off" in done.stdout


def test_the_lineage_is_asked_too(world: World, model: ModelServer) -> None:
    """Passages of the threads before are given as well, under the handoff that opens them."""
    first, second, _ = chain(world)
    model.default = step(
        lambda request: answer(("The gateway's keepalive is off.", [number(request, "is off")]))
    )
    done = ask(world, model, second[:8], "was the gateway keepalive off?", "--json")

    assert done.returncode == 0, done.stderr
    (sentence,) = json.loads(done.stdout)["answer"]
    assert sentence["references"] == [f"{first[:8]}#5"]


def test_what_nobody_said_is_said_to_be_missing(world: World, model: ModelServer) -> None:
    """A model that finds nothing says so, and nothing else is printed."""
    path = world.thread(work())
    model.default = step(lambda request: answer(unanswered="Who deployed it is not told."))
    done = ask(world, model, str(path))

    assert done.stdout == "Not in the passages: Who deployed it is not told.\n"
