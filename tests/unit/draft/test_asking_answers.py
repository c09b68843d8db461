"""What the adapters make of what a program wrote that was asked, and how they ask it."""

import json
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import adapter, samples
from msgspec.structs import replace

from tasuki.harness.protocol import AskAnswer, AskRequest, Harness
from tasuki.model import Thread

QUESTION = "What must the next one know?"


def given(name: str, output: str, tmp_path: Path, schema: str = "") -> AskAnswer:
    """What an adapter takes from an output."""
    harness: Harness = adapter(name)
    thread = harness.read(samples(name)[0])
    request = AskRequest(thread=thread, question=QUESTION, scratch=str(tmp_path), schema=schema)
    if name in ("pi", "omp"):
        (tmp_path / "fork.jsonl").write_text(output)
    return harness.parse_answer(output, request)


def lines(*events: dict[str, Any]) -> str:
    """Events as JSON lines, with something else between them."""
    return "\n".join(["Warning: no such thing", *(json.dumps(e) for e in events), '{"cut":'])


def claude(*blocks: dict[str, Any], id: str = "m2", **end: Any) -> str:
    """A turn of Claude Code: another message before the last one, then its end."""
    first = {"id": "m1", "model": "opus", "content": [{"type": "text", "text": "I look first."}]}
    last = [{"id": id, "model": "opus", "content": [block]} for block in blocks]
    said = [{"type": "assistant", "message": message} for message in (first, *last)]
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3}
    return lines(*said, {"type": "result", "subtype": "success", "usage": usage, **end})


def pi(*messages: dict[str, Any], question: str = QUESTION) -> str:
    """The record of a fork: an old turn, the question, what came after it."""
    usage = {"input": 2, "cacheRead": 4, "output": 1, "cost": {"total": 0.25}}
    old = {"role": "assistant", "content": [{"type": "text", "text": "OLD"}]}
    user = {"role": "user", "content": [{"type": "text", "text": question}]}
    new = [{"role": "assistant", "model": "m", "usage": usage, **m} for m in messages]
    return lines(
        {"type": "session"}, *({"type": "message", "message": m} for m in (old, user, *new))
    )


def text(*parts: str) -> list[dict[str, Any]]:
    """Blocks of text behind a thought."""
    return [
        {"type": "thinking", "thinking": "THOUGHT"},
        *({"type": "text", "text": p} for p in parts),
    ]


CODEX = [{"type": "thread.started"}, {"type": "turn.started"}]
SAID = [
    {"type": "item.completed", "item": {"type": "reasoning", "text": "THOUGHT"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "I look first."}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "a\nb"}},
]
GEMINI = [{"type": "init", "model": "g"}, {"type": "message", "role": "user", "content": QUESTION}]
PIECES = [
    {"type": "message", "role": "assistant", "content": "I look first."},
    {"type": "tool_use", "tool_name": "x"},
    {"type": "message", "role": "assistant", "content": "a\n", "delta": True},
    {"type": "message", "role": "assistant", "content": "b", "delta": True},
]


def opencode(*events: tuple[str, dict[str, Any]]) -> str:
    """Events of a fork of opencode; the number tells the message."""
    made = [{"type": kind, "sessionID": "ses_fork", **more} for kind, more in events]
    return lines(*made)


def part(message: str, **more: Any) -> dict[str, Any]:
    """A part of a message of opencode."""
    return {"part": {"messageID": message, **more}}


STEP = {"tokens": {"input": 2, "output": 1, "cache": {"read": 4}}, "cost": 0.25}
OPENCODE = [
    ("text", part("m1", text="I look first.")),
    ("step_finish", part("m1", reason="tool-calls", **STEP)),
    ("text", part("m2", text="a")),
    ("text", part("m2", text="b")),
]


@pytest.mark.parametrize(
    ("name", "output", "cost"),
    [
        ("claude", claude(*text("a", "b"), total_cost_usd=0.5), ("opus", 12, 3)),
        ("codex", lines(*CODEX, *SAID, {"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 2}}), ("", 9, 2)),
        ("pi", pi({"content": text("I look first.")}, {"content": text("a", "b"), "stopReason": "stop"}), ("m", 12, 2)),
        ("omp", pi({"content": text("I look first.")}, {"content": text("a", "b"), "stopReason": "stop"}), ("m", 12, 2)),
        ("gemini", lines(*GEMINI, *PIECES, {"type": "result", "status": "success", "stats": {"input_tokens": 9, "output_tokens": 2}}), ("g", 9, 2)),
        ("opencode", opencode(*OPENCODE, ("step_finish", part("m2", reason="stop", **STEP))), ("", 12, 2)),
    ],
)  # fmt: skip
def test_the_answer_is_the_text_of_the_last_message(
    name: str, output: str, cost: tuple[str, int, int], tmp_path: Path
) -> None:
    """Its blocks of text, joined by newlines; what is no text, and what came before, is left out."""
    answer = given(name, output, tmp_path)

    assert (answer.text, answer.error, answer.aborted) == ("a\nb", "", False)
    assert (answer.model, answer.input_tokens, answer.output_tokens) == cost
    assert answer.price == (None if name in ("codex", "gemini") else 0.5)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("claude", claude(*text("half"), is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming")),
        ("codex", lines(*CODEX, *SAID)),
        ("pi", pi({"content": text("half"), "stopReason": "aborted", "errorMessage": "Request was aborted"})),
        ("omp", pi({"content": [], "stopReason": "aborted"}, {"content": text("more")})),
        ("gemini", lines(*GEMINI, *PIECES)),
        ("opencode", opencode(("error", {"error": {"name": "MessageAbortedError", "data": {"message": "x"}}}))),
    ],
)  # fmt: skip
def test_a_turn_that_was_broken_off_is_aborted(name: str, output: str, tmp_path: Path) -> None:
    """By a mark of the program, or because its end is missing."""
    assert given(name, output, tmp_path).aborted


@pytest.mark.parametrize(
    ("name", "output", "why"),
    [
        ("claude", claude(*text("API Error"), is_error=True, result="API Error: 529"), "API Error: 529"),
        ("claude", claude(is_error=True, subtype="error_max_turns", errors=["a", "b"]), "a; b"),
        ("claude", claude(*text("half"), stop_reason="max_tokens"), "cut off"),
        ("codex", lines(*CODEX, {"type": "turn.failed", "error": {"message": "no credit"}}), "no credit"),
        ("pi", pi({"content": [], "stopReason": "error", "errorMessage": "400: bad"}), "400: bad"),
        ("omp", pi({"content": text("half"), "stopReason": "length"}), "cut off"),
        ("gemini", lines(*GEMINI, {"type": "result", "status": "error", "error": {"message": "no"}}), "no"),
        ("opencode", opencode(("error", {"error": {"name": "APIError", "data": {"message": "bad"}}})), "bad"),
        ("opencode", opencode(*OPENCODE, ("step_finish", part("m2", reason="length"))), "cut off"),
    ],
)  # fmt: skip
def test_a_failed_turn_says_why(name: str, output: str, why: str, tmp_path: Path) -> None:
    """In the program's words, and with no text; half an answer is none."""
    answer = given(name, output, tmp_path)

    assert why in answer.error
    assert (answer.text, answer.aborted) == ("", False)


@pytest.mark.parametrize("name", ["claude", "codex", "pi", "omp", "gemini", "opencode"])
@pytest.mark.parametrize("output", ["", "no JSON\n", "[]\n{}\nnull\n", '{"type": 7}', "\udcff\x00"])
def test_anything_else_is_no_answer(name: str, output: str, tmp_path: Path) -> None:
    """And no exception."""
    output = output.encode("utf-8", "replace").decode()

    assert given(name, output, tmp_path).text == ""


def test_an_older_answer_is_never_taken_for_the_new_one(tmp_path: Path) -> None:
    """A record in which the question does not stand holds no answer."""
    assert (
        given("pi", pi({"content": text("OLD")}, question="Another one"), tmp_path) == AskAnswer()
    )


def test_the_structured_answer_of_claude_is_taken(tmp_path: Path) -> None:
    """It stands beside the text; without a schema it is not looked at."""
    output = claude(*text("Done."), structured_output={"title": "A"})

    assert given("claude", output, tmp_path, schema="{}").text == '{"title": "A"}'
    assert given("claude", output, tmp_path).text == "Done."


def test_the_price_of_claude_is_that_of_the_question(tmp_path: Path) -> None:
    """A fork counts on from what the thread had cost: that is taken off."""
    harness: Harness = adapter("claude")
    path = tmp_path / "cost.jsonl"
    path.write_text(lines({"type": "cost-state", "totalCostUSD": 9}).replace('": ', '":') + "\n")
    with path.open("a") as file:
        file.write('{"type":"cost-state","totalCostUSD":2.25}\n')
    thread = replace(harness.read(samples("claude")[0]), path=str(path))
    request = AskRequest(thread=thread, question=QUESTION, scratch=str(tmp_path))

    def price(total: float) -> float | None:
        return harness.parse_answer(claude(*text("a"), total_cost_usd=total), request).price

    assert (price(2.5), price(1.0)) == (0.25, None)


def test_the_fork_of_opencode_is_named_for_removal(tmp_path: Path) -> None:
    """Whatever came of the question."""
    for output in (opencode(*OPENCODE), opencode(("error", {"error": {"name": "APIError"}}))):
        assert given("opencode", output, tmp_path).remove == (
            "opencode",
            "session",
            "delete",
            "ses_fork",
        )


def test_the_settings_of_gemini_lose_their_hooks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments are understood; the login and all else is linked, what the program writes is not."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    own = tmp_path / ".gemini"
    (own / "tmp").mkdir(parents=True)
    (own / "oauth_creds.json").write_text("{}")
    (own / "settings.json").write_text(
        '{ // mine\n "hooks": {"AfterAgent": []}, /* and */ "model": {"name": "a//b"}\n}'
    )
    thread = Thread(harness="gemini", id="t", path=str(tmp_path / "thread.jsonl"))
    plan = adapter("gemini").ask(AskRequest(thread=thread, question=QUESTION, scratch="/scratch"))
    (settings,) = (f.content for f in plan.files if f.path.endswith("settings.json"))

    assert json.loads(settings) == {"model": {"name": "a//b"}, "hooksConfig": {"enabled": False}}
    assert [Path(link).name for _, link in plan.links] == ["oauth_creds.json"]
    assert plan.cwd == "/scratch"


def test_the_servers_of_codex_are_switched_off_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the user and of the project; a file that cannot be read costs nothing."""
    home, project = tmp_path / "codex", tmp_path / "proj"
    monkeypatch.setenv("CODEX_HOME", str(home))
    (project / ".codex").mkdir(parents=True)
    home.mkdir()
    thread = Thread(harness="codex", id="t", path=str(tmp_path / "t.jsonl"), cwd=str(project))
    request = AskRequest(thread=thread, question=QUESTION, scratch=str(tmp_path))

    def settings() -> list[str]:
        return [a for a in adapter("codex").ask(request).argv if a.startswith("mcp_servers")]

    assert settings() == []
    (home / "config.toml").write_text("[mcp_servers.one]\ncommand = 'x'\n[mcp_servers.'a b']\n")
    (project / ".codex" / "config.toml").write_text(
        "[mcp_servers.one]\ncommand = 'y'\n[mcp_servers.two]\nurl = 'http://x'\n"
    )

    assert settings() == [
        "mcp_servers.one.enabled=false",
        "mcp_servers.two.enabled=false",
        'mcp_servers.two.url="http://127.0.0.1"',
    ]
    (home / "config.toml").write_text("[[[")
    assert 'mcp_servers.one.command="true"' in settings()
    assert "resume" not in adapter("codex").ask(request).argv
