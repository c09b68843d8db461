"""The author that is a model, from the command line to the wire: what is asked, what fails, what is kept.

The model is a scripted server on 127.0.0.1; tasuki runs as a process of its own.
"""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from desk import APIS, GOAL, Desk, alike, answer, by, extracted
from selection import by_default
from waiting import retry_until

pytest.importorskip("pydantic_ai")

from fakes.model_server import ModelRequest, ModelRule, ModelServer, ModelStep

from tasuki_testing import ThreadBuilder, story

HARNESSES = ("claude", "codex", "pi", "gemini")
SOUND = ModelStep(reply=extracted)
KEY = "correct-horse-battery"
"""A key that looks like none, so that no pattern finds it."""
SAID = "I look at the code first."
"""Words of the agent in the story."""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A user with a home, a project and tasuki."""
    return Desk(tmp_path)


def told(document: dict[str, Any]) -> str:
    """What the user is told about who wrote a handoff."""
    return " ".join(document["authorship"])


def talk(harness: str, desk: Desk) -> ThreadBuilder:
    """A small thread in which the agent reports something."""
    return (
        ThreadBuilder(harness, cwd=str(desk.project))
        .user("Please fix the login timeout; keep it under 30 s — not more")
        .read("src/login.py", "TIMEOUT = 5\n")
        .edit("src/login.py", "TIMEOUT = 5", "TIMEOUT = 25")
        .shell("pytest -q tests/test_login.py", "2 passed\n", 0)
        .assistant("The timeout of the login in `src/login.py` is 25 seconds now.")
    )


# -- what is taken -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harness", "api"), [*((h, "openai") for h in HARNESSES), *(("claude", a) for a in APIS)]
)
def test_a_sound_answer_makes_the_brief(desk: Desk, harness: str, api: str) -> None:
    """What the model chose stands in the brief, and the record says who wrote it and what it cost."""
    with ModelServer(default=SOUND) as server:
        desk.asks(server.url, api)
        path = desk.thread(harness, talk(harness, desk))
        before = path.read_bytes()
        document = desk.handoff(path)

    made, brief = by(document), document["brief"]
    assert (made["author"], made["model"], made["fell"]) == ("model", "local/scripted", [])
    assert (made["requests"], made["whole_from"]) == (len(server.log), 1)
    assert made["input_tokens"] > 500
    assert made["output_tokens"] > 20
    assert made["proposed"]["files"] == made["proposed"]["commands"] == 1
    assert "- src/login.py — changed for it [#" in brief
    assert "- `pytest -q tests/test_login.py` — checks it; 2 passed (a selection) [#" in brief
    assert "- The timeout of the login in `src/login.py` is 25 seconds now. [#" in brief
    assert '- "Please fix the login timeout; keep it under 30 s — not more" [#' in brief
    assert brief.endswith(f"## Next Goal (verbatim)\n{GOAL}")
    assert path.read_bytes() == before


def test_a_flag_chooses_author_and_model(desk: Desk) -> None:
    """`--author model --author-model` asks a model where the settings name none."""
    with ModelServer(default=SOUND) as server:
        desk.asks(server.url)
        desk.config.write_text(
            desk.config.read_text().partition("[providers")[2].join(("[providers", ""))
        )
        path = desk.thread("claude", talk("claude", desk))
        plain = by(desk.handoff(path))
        asked = by(desk.handoff(path, "--author", "model", "--author-model", "local/another"))

    assert plain["author"] == "offline"
    assert (asked["author"], asked["model"]) == ("model", "local/another")
    assert {request.body["model"] for request in server.log} == {"another"}


@pytest.mark.parametrize(
    "around", ["```json\n{}\n```", "Here it is:\n\n{}\n\nI hope that helps.", "\ufeff{}"]
)
def test_what_stands_around_the_answer_is_forgiven(desk: Desk, around: str) -> None:
    """A code fence, or prose before and after the JSON, costs no second request."""
    wrapped = ModelStep(reply=lambda request: around.replace("{}", extracted(request)))
    with ModelServer(default=wrapped) as server:
        desk.asks(server.url)
        document = desk.handoff(desk.thread("claude", talk("claude", desk)))

    assert by(document)["author"] == "model"
    assert not any("could not be used" in request.prompt for request in server.log)


@pytest.mark.parametrize("first", ["", " \n", "No.", '{"relevantFiles": [', "[]", "{}"])
def test_a_bad_answer_is_asked_for_once_more(desk: Desk, first: str) -> None:
    """After one unusable answer a stricter request is made, and its answer is taken."""
    stricter = ModelStep(
        reply=lambda request: answer(relevantFiles=[{"file": "F1", "reason": "", "refs": []}])
    )
    rules = [
        ModelRule("could not be used", (stricter,)),
        ModelRule("was checked", (ModelStep(answer()),)),
    ]
    with ModelServer(rules, ModelStep(first)) as server:
        desk.asks(server.url)
        document = desk.handoff(desk.thread("claude", talk("claude", desk)), "--strict")

    assert by(document)["author"] == "model"
    assert len(server.find_requests("could not be used")) == 1
    assert "- src/login.py" in document["brief"]


# -- what fails --------------------------------------------------------------------------

ENDS: dict[str, tuple[ModelStep, str]] = {
    "empty": (ModelStep(""), "it was empty"),
    "blank": (ModelStep(" \n\t"), "it was empty"),
    "prose": (ModelStep("I would rather talk."), "holds no JSON object"),
    "cut off": (ModelStep('{"relevantFiles": [{"file": "F1", "rea', end="length"), "It ends in the middle"),
    "cut off at once": (ModelStep(end="length"), "returned no text"),
    "refused": (ModelStep("I cannot help with that.", end="refusal"), "refused to answer"),
    "held back": (ModelStep(end="filter"), "refused to answer"),
    "too many": (ModelStep(status=429, error="Slow down.", headers={"retry-after": "0"}), "429: Slow down."),
    "overloaded": (ModelStep(status=529, error="Overloaded."), "529: Overloaded."),
    "broken": (ModelStep(status=500, error="An oversight."), "500: An oversight."),
    "gateway": (ModelStep(raw=b"<h1>Bad</h1>", status=502, headers={"content-type": "text/html"}), "502"),
    "no answer": (ModelStep(raw=b"<html>busy</html>", headers={"content-type": "text/html"}), "could not be asked"),
    "unknown": (ModelStep(status=404, error="No such model."), "404: No such model."),
    "closed": (ModelStep("x" * 500, cut=100), "could not be asked"),
    "closed at once": (ModelStep(cut=0), "could not be asked"),
    "invented": (ModelStep(answer(decisions=[{"text": "Use `src/no.py`.", "refs": [4]}])), "passed the checks"),
    "nothing said": (ModelStep(answer()), "it was empty"),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(ENDS))
def test_a_failure_leaves_the_offline_brief_and_its_reason(desk: Desk, kind: str) -> None:
    """Whatever fails, the brief is the offline author's, and the user reads why."""
    step, reason = ENDS[kind]
    with ModelServer(default=step) as server:
        desk.asks(server.url)
        path = desk.thread("claude", talk("claude", desk))
        document = desk.handoff(path)
        offline = desk.handoff(path, "--author", "offline")

    (fell,) = by(document)["fell"]
    assert by(document)["author"] == "offline"
    assert fell.startswith("model: ")
    assert reason in fell
    assert reason in told(document)
    assert alike(document["brief"]) == alike(offline["brief"])
    assert 1 <= len(server.log) <= 3


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        *((kind, "openai") for kind in ("empty", "prose", "too many", "closed")),
        *by_default(
            ((kind, api) for api in APIS for kind in ("refused", "broken")),
            ("refused", "openai"),
            ("broken", "anthropic"),
        ),
    ],
)
def test_with_strict_a_failure_is_an_error(desk: Desk, kind: str, api: str) -> None:
    """`--strict` ends with code 1 and the reason, prints no brief and keeps none."""
    step, reason = ENDS[kind]
    with ModelServer(default=step) as server:
        desk.asks(server.url, api)
        path = desk.thread("claude", talk("claude", desk))
        done = desk.run("handoff", "--print", "--strict", "--from", str(path), GOAL)

    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert desk.run("handoffs").stdout == ""


def test_the_reason_goes_to_standard_error(desk: Desk) -> None:
    """A printed brief is the brief alone; why another author wrote it stands beside it."""
    with ModelServer(default=ModelStep(status=500, error="An oversight.")) as server:
        desk.asks(server.url)
        path = desk.thread("claude", talk("claude", desk))
        done = desk.run("handoff", "--print", "--from", str(path), GOAL)

    assert done.returncode == 0
    assert "An oversight." in done.stderr
    assert "An oversight." not in done.stdout
    assert done.stdout.startswith("# Handoff Context\n")


@pytest.mark.parametrize("beat", [0.0, 0.2])
@pytest.mark.parametrize("api", list(APIS))
def test_an_answer_that_does_not_come(desk: Desk, api: str, beat: float) -> None:
    """`author_seconds` bounds an answer, also where the endpoint keeps the connection alive."""
    with ModelServer(default=ModelStep("late", delay=60, beat=beat)) as server:
        desk.asks(server.url, api, settings="author_seconds = 2")
        path = desk.thread("claude", talk("claude", desk))
        begun = time.monotonic()
        document = desk.handoff(path)

    assert time.monotonic() - begun < 25
    assert by(document)["author"] == "offline"
    assert "author_seconds" in told(document)


def test_nobody_listens(desk: Desk) -> None:
    """A server that is down is named with its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    desk.asks(url)
    document = desk.handoff(desk.thread("claude", talk("claude", desk)))

    assert by(document)["author"] == "offline"
    assert url in told(document)


@pytest.mark.parametrize(
    "text",
    by_default(
        ["{" + "x" * 20_000_000, answer(decisions=[{"text": "so", "refs": [2]}] * 500_000)],
        "{" + "x" * 20_000_000,
    ),
)
def test_a_huge_answer_is_not_sent_back(desk: Desk, text: str) -> None:
    """20 MB are no answer, and the stricter request does not hold them."""
    with ModelServer(default=ModelStep(text)) as server:
        desk.asks(server.url)
        document = desk.handoff(desk.thread("claude", talk("claude", desk)))

    sizes = [sum(len(turn.text) for turn in request.turns) for request in server.log]
    assert by(document)["author"] == "offline"
    assert "characters long" in told(document)
    assert max(sizes) < 32_000 * 4


def test_an_answer_with_many_items_is_cut(desk: Desk) -> None:
    """2,000 items in one section do not make the brief longer than its budget."""
    many = [{"text": SAID, "refs": [4]}] * 2000
    with ModelServer(default=ModelStep(answer(relevantInformation=many))) as server:
        desk.asks(server.url)
        document = desk.handoff(desk.thread("claude"), "--budget", "600")

    assert document["tokens"] <= 600 + len(GOAL) // 4 + 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        ("the request exceeds the available context size", "exceed_context_size_error"),
    ],
)
def test_a_request_that_is_too_long_is_made_shorter(desk: Desk, error: str, code: str) -> None:
    """An endpoint with a smaller window than the settings say is asked again with less."""
    whole = ModelStep(status=400, error=error, code=code)
    step = ModelStep(reply=lambda request: whole if size(request) > 30_000 else extracted(request))
    builder = talk("claude", desk)
    for n in range(60):
        builder.assistant(f"Part {n} of the login is looked at. " + f"word{n} " * 150)
    with ModelServer(default=step) as server:
        desk.asks(server.url, window=40_000)
        document = desk.handoff(desk.thread("claude", builder), "--strict")

    assert by(document)["whole_from"] > 1
    asked = [size(request) for request in server.log]
    assert asked[0] > asked[1] > 30_000 > asked[2], "in two steps"


def size(request: ModelRequest) -> int:
    """Characters of the messages of a request."""
    return sum(len(turn.text) for turn in request.turns)


def test_an_endpoint_that_knows_no_schema(desk: Desk) -> None:
    """Where `response_format` is turned down, the same is asked without it, from then on."""
    refused = ModelStep(status=400, error="response_format is not supported")
    step = ModelStep(reply=lambda r: refused if "response_format" in r.body else extracted(r))
    with ModelServer(default=step) as server:
        desk.asks(server.url)
        path = desk.thread("claude", talk("claude", desk))
        document = desk.handoff(path, "--strict")
        asked = len(server.log)
        desk.asks(server.url, json_schema=False)
        desk.handoff(path, "--strict")

    assert by(document)["author"] == "model"
    assert ["response_format" in request.body for request in server.log[:2]] == [True, False]
    assert not any("response_format" in request.body for request in server.log[asked:])


# -- keys --------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(APIS))
def test_the_key_goes_to_the_endpoint_alone(desk: Desk, api: str) -> None:
    """The key is in a header of each request, and in nothing that is said or stored."""
    echo = f"Incorrect API key provided: {KEY}. You can find yours elsewhere."
    with ModelServer(
        [ModelRule("cover it", (ModelStep(status=401, error=echo),))], SOUND
    ) as server:
        desk.asks(server.url, api, key_env="LOCAL_KEY")
        path = desk.thread("claude", talk("claude", desk))
        failed = desk.run("handoff", "--json", "--from", str(path), GOAL, LOCAL_KEY=KEY)
        strict = desk.run("handoff", "--strict", "--from", str(path), GOAL, LOCAL_KEY=KEY)
        server.rules = ()
        done = desk.run("handoff", "--json", "--from", str(path), GOAL, LOCAL_KEY=KEY)

    assert by(json.loads(failed.stdout))["author"] == "offline"
    assert strict.returncode == 1
    assert by(json.loads(done.stdout))["author"] == "model"
    for request in server.log:
        assert any(KEY in value for value in request.headers.values())
        assert not request.count_text(KEY)
        assert KEY not in request.path
    for said in (failed, strict, done):
        assert KEY not in said.stdout + said.stderr
    assert KEY not in desk.written()


def test_a_key_that_is_not_set_is_named(desk: Desk) -> None:
    """Without the variable that the settings name, nothing is asked, and the error names it."""
    with ModelServer(default=SOUND) as server:
        desk.asks(server.url, key_env="LOCAL_KEY")
        done = desk.run("handoff", "--print", "--from", str(desk.thread()), GOAL)

    assert (done.returncode, done.stdout, server.log) == (1, "", [])
    assert "LOCAL_KEY is not set" in done.stderr


# -- interrupted -------------------------------------------------------------------------


@pytest.mark.parametrize("api", by_default(APIS, "openai"))
def test_an_interrupt_ends_it(desk: Desk, api: str) -> None:
    """Ctrl-C while the model thinks ends with code 130: no brief, no other author, nothing kept."""
    with ModelServer(default=ModelStep("late", delay=60)) as server:
        desk.asks(server.url, api)
        path = desk.thread("claude", talk("claude", desk))
        program = subprocess.Popen(
            desk.command("handoff", "--print", "--from", str(path), GOAL),
            cwd=desk.project,
            env=desk.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            retry_until(lambda: server.log or program.poll() is not None, 60)
            program.send_signal(signal.SIGINT)
            out, error = program.communicate(timeout=20)
        finally:
            program.kill()
            program.wait()

    assert (program.returncode, out) == (130, "")
    assert "Interrupted" in error
    assert "Traceback" not in error
    assert len(server.log) == 1
    assert desk.run("handoffs").stdout == ""


def test_the_story_is_told_by_all_harnesses() -> None:
    """The threads of these tests hold what the answers speak of."""
    assert all(SAID in story(harness).text() for harness in HARNESSES)
