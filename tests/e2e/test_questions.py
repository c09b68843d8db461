"""Questions of the real programs, answered from the dashboard, by the API and the command line."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Browsing, operator
from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from fleets import Refused, refusal
from playwright.sync_api import expect
from real_fleet import SECONDS, RealFleet
from test_fleet import KINDS
from waiting import retry_until

from tasuki.fleet.store.questions import SECRET, TALL

pytestmark = pytest.mark.e2e

KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""
OPTIONS = [
    {"label": "SQLite", "description": "One file, nothing to run"},
    {"label": "PostgreSQL", "description": "A server that several hosts share"},
]


@pytest.fixture
def claude(with_claude: World) -> Iterator[RealFleet]:
    """A fleet of Claude Code that asks before it runs a command."""
    fleet = RealFleet(with_claude, "claude", ("--permission-mode", "default"))
    fleet.serve()
    fleet.install()
    yield fleet
    fleet.close()


def told(fleet: RealFleet, *steps: ModelStep, words: str = "ask me now") -> int:
    """An agent whose model takes these steps, once it asks."""
    fleet.world.model.rules = (
        ModelRule(words, (*steps, ModelStep("Done as you said."))),
        *fleet.world.model.rules,
    )
    agent = fleet.worked(fleet.started())
    fleet.api("POST", f"/api/agents/{agent}/send", {"text": words})
    return agent


def asked(fleet: RealFleet, agent: int, after: str = "") -> Any:
    """The question of an agent once it was read from its screen; another one than that with a mark."""

    def found() -> Any:
        question = fleet.agent(agent)["question"]
        return question and question["is_read"] and question["mark"] != after and question

    try:
        return retry_until(found, SECONDS)
    except AssertionError:
        raise AssertionError(fleet.telling(agent)) from None


def held(fleet: RealFleet, agent: int) -> Any:
    """The question of an agent once it is known that it cannot be answered from here."""
    return retry_until(lambda: (now := fleet.agent(agent)["question"]) and now["obstacle"] and now, SECONDS)  # fmt: skip


def answer(fleet: RealFleet, agent: int, question: Any, **given: str) -> Any:
    """Answer a question by the API."""
    return fleet.api("POST", f"/api/agents/{agent}/answer", {"mark": question["mark"], **given})


def test_a_command_is_allowed_by_one_click(claude: RealFleet, browsing: Browsing) -> None:
    """Its card has the command, with what looks like ASCII by number, also when the program reminds of it."""
    done = claude.folder / "allowed"
    command = (
        f"echo https://рурі.org ra\u1d21.com 'Привет' > /dev/null && touch {shlex.quote(str(done))}"
    )
    call = ScriptedCall("Bash", {"command": command, "description": "Run migration down"})
    agent = told(claude, ModelStep("I run it.", (call,)))
    asked(claude, agent)
    page = operator(browsing.page(claude.origin()), claude.link())
    card = page.locator(f"#agent-{agent}")
    expect(card.locator(".asked")).to_have_text("Allow Bash?")
    retry_until(lambda: "Claude needs your permission" in str(claude.log()), SECONDS)
    page.reload()
    expect(card.locator("pre.detail")).to_contain_text("touch ")
    expect(card.locator("pre.detail")).to_contain_text(
        "https://⟨U+0440⟩⟨U+0443⟩⟨U+0440⟩⟨U+0456⟩.org ra⟨U+1D21⟩.com 'Привет'"
    )
    assert not done.exists()
    card.get_by_role("button", name="Yes", exact=True).click()
    claude.idle(agent)
    expect(card.locator(".question")).to_have_count(0)

    assert done.exists()


def test_the_command_line_answers_no_question_that_it_has_not_shown(claude: RealFleet) -> None:
    """One is answered at the terminal: the next one is shown, and only then taken."""
    calls = [ScriptedCall("Bash", {"command": f"touch {name}", "description": name}) for name in ("harmless", "dangerous")]  # fmt: skip
    agent = told(claude, *(ModelStep("I run it.", (call,)) for call in calls))
    first = asked(claude, agent)
    claude.tasuki("agent", "answer", str(agent))
    claude.press(agent, "1")
    asked(claude, agent, after=first["mark"])
    refused = claude.tasuki("agent", "answer", str(agent), "1", code=1)
    made = [(claude.work / name).exists() for name in ("harmless", "dangerous")]
    taken = claude.tasuki("agent", "answer", str(agent), "1")
    claude.idle(agent)

    assert "    touch dangerous\n" in refused
    assert made == [True, False]
    assert "took it: 1. Yes" in taken
    assert (claude.work / "dangerous").exists()


HIDING = {
    "70 line breaks": ("touch made" + "\n" * 70 + "ls -la src", "Its dialog is taller than the terminal", "71 lines"),
    "14,000 blanks": ("touch made;" + " " * 14_000 + "ls", "“value cannot be shown in full”", "1 line, 14,"),
    "82 lines": ("\n".join(("touch made", *(f"echo {n}" for n in range(80)), "ls -la src")), "Its dialog is taller", "82 lines"),
    "a mark of direction": ("echo \u202e; touch made; ls", "Nothing proves that its dialog", ""),
    "a password that is run": ("PASSWORD=touch+hidden99Xx; touch made; ${PASSWORD//+/ }; ls", SECRET, ""),
    "a password that is hit": (f"touch made && API_KEY={KEY} && touch $API_KEY; ls", SECRET, ""),
}  # fmt: skip
"""Ways to hide what a command does: the command, why its dialog cannot be answered, and its size in words."""


@pytest.mark.parametrize("how", HIDING)
def test_a_command_that_hides_what_it_does_is_shown_and_not_answered(
    how: str, claude: RealFleet, browsing: Browsing
) -> None:
    """Its beginning, its end and its size are everywhere; no button, no call and no command line allows it."""
    browsing.expect("status of 400")
    made = claude.work / "made"
    command, why, size = HIDING[how]
    call = ScriptedCall("Bash", {"command": command, "description": "List the sources"})
    agent = told(claude, ModelStep("I run it.", (call,)))
    question = held(claude, agent)
    refused = [
        refusal(claude, f"/api/agents/{agent}/answer", {"mark": question["mark"], **given})[1]
        for given in ({"choice": "1"}, {"text": "1"}, {"choices": ["1"]})
    ]
    shown = claude.tasuki("agent", "answer", str(agent))
    typed = claude.tasuki("agent", "answer", str(agent), "1", "--mark", question["mark"], code=1)
    (alert,) = (a["text"] for a in claude.api("GET", "/api/alerts")["alerts"] if a["kind"] == "needs_you")  # fmt: skip
    page = operator(browsing.page(claude.origin()), claude.link())
    texts = [page.locator(f"#agent-{agent} .question").inner_text()]
    for path in (f"/agents/{agent}", f"/agents/{agent}/peek"):
        page.goto(path)
        texts.append(page.locator(".question").inner_text())
        assert page.locator(".question button, .question input").count() == 0
    page.goto("/?look=list")
    row = page.locator(f"#agent-{agent} .said").inner_text()
    (end,) = re.findall(r"ls(?: -la src)?$", command)

    assert why in question["obstacle"]
    assert all(question["obstacle"] in one for one in refused), refused
    for text in (*texts, shown, typed):
        assert question["obstacle"] in text
    for text in (*texts, shown, row, alert):
        assert "touch made" in text, text
        assert end in text.partition("touch")[2], text
        assert size in text, text
    assert not made.exists()
    claude.press(agent, "Escape")
    claude.idle(agent)
    assert not made.exists()


def test_what_sub_agents_ask_is_answered_one_after_the_other(claude: RealFleet) -> None:
    """Their hooks report at once: each answer goes to the command that was shown for it."""
    files = [claude.folder / name for name in ("one", "two")]
    calls = [ScriptedCall("Agent", {"description": name, "prompt": f"sub-{name}", "subagent_type": "general-purpose"}) for name in ("one", "two")]  # fmt: skip
    for file in files:
        call = ScriptedCall("Bash", {"command": f"touch {file}", "description": file.name})
        claude.world.model.rules = (ModelRule(f"sub-{file.name}", (ModelStep("I run it.", (call,)), ModelStep("Done."))), *claude.world.model.rules)  # fmt: skip
    agent = told(claude, ModelStep("Two.", tuple(calls)))
    retry_until(lambda: claude.agent(agent)["question"] and str(claude.log()).count("permission for Bash") > 1, SECONDS)  # fmt: skip
    first = asked(claude, agent)
    wanted = next(file for file in files if first["detail"] == f"touch {file}")
    (other,) = {*files} - {wanted}
    given = [answer(claude, agent, first, choice="1")["state"]]
    second = asked(claude, agent, after=first["mark"])
    retry_until(wanted.exists, SECONDS)
    assert second["detail"] == f"touch {other}"
    given.append(answer(claude, agent, second, choice=second["choices"][-1]["key"])["state"])
    claude.idle(agent)

    assert given == ["proven", "proven"]
    assert not other.exists()


def test_a_question_is_answered_by_a_choice_and_in_other_words(claude: RealFleet) -> None:
    """The first by its digit, the second in the field that its own last choice opens."""
    first = {"question": "Which database?", "header": "Database", "options": OPTIONS, "multiSelect": False}  # fmt: skip
    second = {**first, "question": "Which name?", "header": "Name"}
    calls = [ScriptedCall("AskUserQuestion", {"questions": [one]}) for one in (first, second)]
    agent = told(claude, *(ModelStep("A question.", (call,)) for call in calls))
    question = asked(claude, agent)
    chosen = answer(claude, agent, question, choice="2")
    other = asked(claude, agent, after=question["mark"])
    typed = answer(claude, agent, other, text="the one of the shop")
    claude.idle(agent)
    thread = claude.screen(claude.agent(agent)["pane"])

    assert (question["text"], question["kind"]) == ("Which database?", "choice")
    assert question["choices"][1]["label"] == "PostgreSQL — A server that several hosts share"
    assert (chosen["state"], typed["state"]) == ("proven", "proven")
    assert "Which database? → PostgreSQL" in thread
    assert "Which name? → the one of the shop" in thread


BOXES = {"question": "Which databases?", "header": "Databases", "options": OPTIONS, "multiSelect": True}  # fmt: skip


def test_boxes_are_ticked_and_sent_by_one_button(claude: RealFleet, browsing: Browsing) -> None:
    """What was ticked in the terminal is unticked where it was not chosen; the review is sent, too."""
    agent = told(claude, ModelStep("Q.", (ScriptedCall("AskUserQuestion", {"questions": [BOXES]}),)))  # fmt: skip
    question = asked(claude, agent)
    assert question["takes_several"]
    retry_until(lambda: claude.press(agent, "1") or "[✔] SQLite" in claude.screen(claude.agent(agent)["pane"]), SECONDS)  # fmt: skip
    page = operator(browsing.page(claude.origin()), claude.link())
    card = page.locator(f"#agent-{agent}")
    box = card.get_by_role("checkbox", name="PostgreSQL — A server that several hosts share")
    box.check()
    card.get_by_role("button", name="Send").click()
    claude.idle(agent)
    expect(card.locator(".question")).to_have_count(0)

    assert "Which databases? → PostgreSQL" in claude.screen(claude.agent(agent)["pane"])


def test_several_questions_of_one_call_are_answered_one_after_the_other(claude: RealFleet) -> None:
    """Boxes and single choices, by the API and the command line; the answers are sent as the last one."""
    name = {"question": "Which name?", "header": "Name", "options": OPTIONS, "multiSelect": False}
    tests = {**BOXES, "question": "Which tests?", "header": "Tests"}
    call = ScriptedCall("AskUserQuestion", {"questions": [BOXES, name, tests]})
    agent = told(claude, ModelStep("Questions.", (call,)))
    first = asked(claude, agent)
    with pytest.raises(Refused, match="at least one"):
        answer(claude, agent, first)
    claude.tasuki("agent", "answer", str(agent))
    given = [claude.tasuki("agent", "answer", str(agent), "2", "1")]
    second = asked(claude, agent, after=first["mark"])
    with pytest.raises(Refused, match="takes one of its choices"):
        claude.api("POST", f"/api/agents/{agent}/answer", {"mark": second["mark"], "choices": ["1", "2"]})  # fmt: skip
    given.append(answer(claude, agent, second, choice="1")["state"])
    third = asked(claude, agent, after=second["mark"])
    given.append(claude.api("POST", f"/api/agents/{agent}/answer", {"mark": third["mark"], "choices": ["2"]})["state"])  # fmt: skip
    review = asked(claude, agent, after=third["mark"])
    given.append(answer(claude, agent, review, choice="1")["state"])
    claude.idle(agent)
    screen = claude.screen(claude.agent(agent)["pane"])

    assert [one["takes_several"] for one in (first, second, third, review)] == [True, False, True, False]  # fmt: skip
    assert [one["text"] for one in (second, third)] == ["Which name?", "Which tests?"]
    assert (review["is_review"], review["text"]) == (True, "Submit these answers?")
    assert "→ SQLite, PostgreSQL" in review["detail"]
    assert given == [given[0], "proven", "proven", "proven"]
    assert "took it: 1. SQLite — One file, nothing to run; 2. PostgreSQL" in given[0]
    for line in ("Which databases? → SQLite, PostgreSQL", "Which name? → SQLite", "Which tests? → PostgreSQL"):  # fmt: skip
        assert line in screen


@pytest.mark.long
def test_a_plan_is_sent_back_with_words(with_claude: World) -> None:
    """The plan is the detail; what should be changed is typed into its last choice."""
    fleet = RealFleet(with_claude, "claude", ("--permission-mode", "plan"))
    fleet.serve()
    fleet.install()
    try:
        leave = ModelStep("A plan.", (ScriptedCall("ExitPlanMode", {}),))
        agent = told(fleet, ModelStep(reply=written_plan), leave)
        question = asked(fleet, agent)
        given = answer(fleet, agent, question, text="Do the second thing first")
        fleet.idle(agent)
    finally:
        fleet.close()

    assert (question["kind"], question["text"]) == ("plan", "Carry out this plan?")
    assert "1. Do this" in question["detail"]
    assert given["state"] == "proven"
    assert any(r.count_text("Do the second thing first") for r in with_claude.model.log)


def written_plan(request: ModelRequest) -> ModelStep:
    """The model writes its plan into the file that the program names."""
    found = re.search(r"(/[^\s\"'`\\]*/plans/[^\s\"'`\\]+\.md)", str(request.body))
    assert found, request.body
    content = "# The plan\n\n1. Do this\n2. Do that\n"
    return ModelStep("P.", (ScriptedCall("Write", {"file_path": found[1], "content": content}),))


ASK_PORT = """export default (pi: any) => pi.registerTool({
  name: "ask_port", label: "Ask", description: "Asks for the port", parameters: { type: "object", properties: {} },
  execute: async (_id: any, _params: any, _signal: any, _update: any, ctx: any) =>
    ({ content: [{ type: "text", text: "port " + (await ctx.ui.input("Which port?")) }], details: {} }),
});
"""


def test_words_are_typed_where_no_dialog_is_known(with_pi: World) -> None:
    """A tool of pi asks for words: they are typed as they are, and its hook tells that it works on."""
    fleet = RealFleet(with_pi, "pi")
    fleet.serve()
    fleet.install()
    with_pi.write(".pi/agent/extensions/ask-port.ts", ASK_PORT)
    try:
        agent = told(fleet, ModelStep("I ask.", (ScriptedCall("ask_port", {}),)))
        question = retry_until(
            lambda: (now := fleet.agent(agent)["question"]) and now["takes_text"] and now, SECONDS
        )
        given = answer(fleet, agent, question, text="8787 it is")
        fleet.idle(agent)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.telling(1)}") from None
    finally:
        fleet.close()

    assert question["text"] == "Which port?"
    assert given["state"] == "proven"
    assert any(r.count_text("port 8787 it is") for r in with_pi.model.log)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "arguments", "tool", "argument", "more"),
    [
        ("codex", ("--dangerously-bypass-hook-trust", "--sandbox", "workspace-write", "--ask-for-approval", "on-request"),
         "exec_command", "cmd", {"sandbox_permissions": "require_escalated", "justification": "It is needed"}),
        ("gemini", (), "run_shell_command", "command", {"description": "Run it"}),
    ],
)  # fmt: skip
def test_other_programs_take_a_digit_too(
    name: str,
    arguments: tuple[str, ...],
    tool: str,
    argument: str,
    more: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    """One of 82 lines is shown and not answered; a short one is allowed by its first choice, and runs."""
    world = request.getfixturevalue(f"with_{name}")
    world.set(**KINDS[name].env)
    if name == "codex":
        config = world.home / ".codex" / "config.toml"
        config.write_text(config.read_text().replace('"never"', '"on-request"'))
    fleet = RealFleet(world, name, arguments)
    fleet.serve()
    fleet.install()
    try:
        done = fleet.folder / "allowed"
        command = f"touch {shlex.quote(str(done))}"
        calls = [
            ScriptedCall(tool, {argument: command + after, **more}) for after in ("\necho" * 81, "")
        ]
        agent = told(fleet, ModelStep("I run it.", (calls[0],)), words="ask for much")
        much = held(fleet, agent)
        fleet.press(agent, "Escape")
        fleet.idle(agent)
        rule = ModelRule("ask me now", (ModelStep("I run it.", (calls[1],)), ModelStep("Done.")))
        fleet.world.model.rules = (rule, *fleet.world.model.rules)
        fleet.api("POST", f"/api/agents/{agent}/send", {"text": "ask me now"})
        question = asked(fleet, agent)
        assert not done.exists()
        given = answer(fleet, agent, question, choice="1")
        fleet.idle(agent)
    finally:
        fleet.close()

    assert (much["obstacle"], much["choices"]) == (TALL, [])
    assert (much["detail"][: len(command)], much["lines"]) == (command, 82)
    assert (question["detail"], given["state"]) == (command, "proven")
    assert done.exists()


def begun(fleet: RealFleet, persona: str) -> int:
    """An agent that was started with a goal and has not begun."""
    given = {"harness": fleet.harness, "cwd": str(fleet.work), "persona": persona}
    made = fleet.api("POST", "/api/agents", {**given, "goal": "Fix the upload client"})
    return int(made["id"])


def test_the_folder_is_trusted_from_the_fleet(with_claude: World) -> None:
    """The program asks before any hook runs; the answer lets it begin with its goal."""
    known = json.loads((with_claude.home / ".claude.json").read_text())
    with_claude.write(".claude.json", {**known, "projects": {}})
    fleet = RealFleet(with_claude, "claude")
    fleet.serve()
    fleet.install()
    try:
        agent = begun(fleet, fleet.persona())
        question = asked(fleet, agent)
        (alert,) = fleet.api("GET", "/api/alerts")["alerts"]
        said = answer(fleet, agent, question, choice="2")
        fleet.idle(agent)
    finally:
        fleet.close()

    assert question["text"].startswith("Quick safety check: ")
    assert alert["title"].endswith("waits for you")
    assert "Yes, I trust this folder" in said["answer"]
    assert fleet.asked("Fix the upload client")


def test_codex_asks_about_the_folder_and_its_hooks(with_codex: World) -> None:
    """Two questions before the first prompt, answered one after the other."""
    config = with_codex.home / ".codex" / "config.toml"
    config.write_text(config.read_text().replace('trust_level = "trusted"', ""))
    fleet = RealFleet(with_codex, "codex")
    fleet.serve()
    fleet.install()
    try:
        agent = begun(fleet, "")
        folder = asked(fleet, agent)
        answer(fleet, agent, folder, choice="1")
        hooks = asked(fleet, agent, folder["mark"])
        answer(fleet, agent, hooks, choice="2")
        fleet.idle(agent)
    finally:
        fleet.close()

    assert folder["text"].startswith("Trust this folder?")
    assert "Hooks need review" in hooks["detail"]
    assert fleet.asked("Fix the upload client")
