"""What a waiting agent asks, and the answer: once, and only to that very question."""

import json
import shlex
import threading
from typing import Any

import pytest
from fleets import TASUKI, Refused, World, refusal
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""
COMMAND = "alembic downgrade -1 && curl https://migrations.example/run?with=everything"
SECRET = f"alembic downgrade -1 && curl -H 'x-api-key: {KEY}' https://migrations.example/run?with=everything"


def asking(world: World, *commands: str, what: str = "Run migration down") -> int:
    """An agent that asks whether it may run commands, one after the other."""
    do: list[Any] = [["permit", command, what] for command in commands]
    world.script(migrate=[*do, ["say", "Migrated."]])
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/send", {"text": "migrate it"})
    asked(world, agent)
    return agent


def asked(world: World, agent: int, after: str = "") -> Any:
    """The question of an agent once its choices are read; another one than that with a mark."""

    def found() -> Any:
        question = world.agent(agent)["question"]
        return question and question["is_read"] and question["mark"] != after and question

    return retry_until(found, 20)


def answer(world: World, agent: int, mark: str, **given: str) -> Any:
    """Answer a question by the API."""
    return world.api("POST", f"/api/agents/{agent}/answer", {"mark": mark, **given})


def test_the_question_is_told_with_its_command_and_choices(world: World) -> None:
    """Not the reminder that came behind it; the command is whole."""
    agent = asking(world, COMMAND)
    question = asked(world, agent)

    assert (question["text"], question["detail"]) == ("Allow Bash?", COMMAND)
    assert [(one["key"], one["label"]) for one in question["choices"]] == [
        ("1", "Yes"), ("2", "Yes, and don't ask again for this command"), ("3", "No"),
    ]  # fmt: skip
    assert world.agent(agent)["waiting_for"] == "permission for Bash"


def test_a_secret_hides_nothing_that_is_answered(world: World) -> None:
    """It is shown without its key, and neither the API nor the command line answers it: its terminal does."""
    agent = asking(world, SECRET)
    question = asked(world, agent)
    why = "A secret is hidden in it here: answer it in its terminal."
    body = {"mark": question["mark"], "choice": "1"}
    refused = refusal(world, f"/api/agents/{agent}/answer", body)
    shown = world.tasuki("agent", "answer", str(agent))
    typed = [
        world.tasuki("agent", "answer", str(agent), "1", *mark, code=1)
        for mark in ((), ("--mark", question["mark"]))
    ]
    told = json.dumps([world.agent(agent), world.log(), world.api("GET", "/api/alerts")])
    answered = world.seen("answered")
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "1"})
    world.idle(agent)

    assert question["detail"].startswith("alembic downgrade -1 && curl -H 'x-api-key: [REDACTED")
    assert question["detail"].endswith("https://migrations.example/run?with=everything")
    assert (question["choices"], question["takes_text"], question["obstacle"]) == ([], False, why)
    assert refused == (400, f"{why} Nothing was typed.")
    assert all(why in one for one in (shown, *typed))
    assert KEY not in told
    assert (answered, [one["text"] for one in world.seen("answered")]) == ([], ["1"])


def test_the_alert_has_the_question_and_the_command(world: World) -> None:
    """One alert, although the program reminded of it."""
    asking(world, COMMAND)
    alerts = [a for a in world.api("GET", "/api/alerts")["alerts"] if a["kind"] == "needs_you"]

    assert len(alerts) == 1
    assert alerts[0]["text"].startswith("Allow Bash? alembic downgrade -1")


def test_an_answer_is_given_once(world: World) -> None:
    """The key is pressed, the question is gone, the agent works on; a second answer is refused."""
    agent = asking(world, COMMAND)
    mark = asked(world, agent)["mark"]
    given = answer(world, agent, mark, choice="1")
    again = refusal(world, f"/api/agents/{agent}/answer", {"mark": mark, "choice": "1"})
    world.idle(agent)

    assert given == {"state": "proven", "why": "", "answer": "1. Yes"}
    assert again[0] == 400
    assert "Nothing was typed" in again[1]
    assert [one["text"] for one in world.seen("answered")] == ["1"]
    assert world.agent(agent)["question"] is None
    assert "The question of agent 1 was answered: 1. Yes" in str(world.log())


def test_two_clicks_at_once_press_one_key(world: World) -> None:
    """One of them is told that it was answered, or that nothing is asked any more."""
    agent = asking(world, COMMAND)
    mark, outcomes = asked(world, agent)["mark"], list[str]()

    def click() -> None:
        try:
            outcomes.append(answer(world, agent, mark, choice="3")["state"])
        except Refused as error:
            outcomes.append(str(error.status))

    clicks = [threading.Thread(target=click) for _ in range(4)]
    for one in clicks:
        one.start()
    for one in clicks:
        one.join()

    assert sorted(outcomes) == ["400", "400", "400", "proven"]
    assert [one["text"] for one in world.seen("answered")] == ["3"]
    world.idle(agent)


def test_another_question_meanwhile_is_not_answered(world: World) -> None:
    """The operator answered in the terminal, and the next question stands there: nothing is typed."""
    agent = asking(world, "rm -rf build", "git push --force")
    first = asked(world, agent)
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "1"})
    second = asked(world, agent, after=first["mark"])
    status, why = refusal(
        world, f"/api/agents/{agent}/answer", {"mark": first["mark"], "choice": "1"}
    )

    assert (status, why) == (
        400, f"Agent {agent} asks something else by now. Nothing was typed. Look at it again.",
    )  # fmt: skip
    assert (second["detail"], [one["text"] for one in world.seen("answered")]) == ("git push --force", ["1"])  # fmt: skip
    assert answer(world, agent, second["mark"], choice="3")["answer"] == "3. No"
    world.idle(agent)


def test_a_question_that_is_not_on_the_screen_is_not_answered(world: World) -> None:
    """Whatever the hook told: the screen is looked at before a key is pressed."""
    agent = asking(world, "rm -rf build")
    question = asked(world, agent)
    world.sql(
        f"UPDATE agents SET question = replace(question, 'rm -rf build', 'rm -rf /') WHERE id = {agent}"
    )
    status, why = refusal(
        world, f"/api/agents/{agent}/answer", {"mark": question["mark"], "choice": "1"}
    )

    assert status == 400
    assert why.startswith((f"The pane of agent {agent} does not show", "Nothing proves"))
    assert world.seen("answered") == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"choice": "7"}, "It offers no choice '7' now. Its choices: 1, 2, 3."),
        ({"choice": "Enter"}, "It offers no choice 'Enter' now. Its choices: 1, 2, 3."),
        ({"text": "yes"}, "It takes one of its choices, and no words of your own."),
        ({}, "Name a choice, or write a text: there is nothing to answer."),
    ],
)
def test_what_is_no_answer_is_refused(world: World, given: dict[str, str], why: str) -> None:
    """By a sentence; nothing is typed, and the question stays open."""
    agent = asking(world, "rm -rf build")
    mark = asked(world, agent)["mark"]

    assert refusal(world, f"/api/agents/{agent}/answer", {"mark": mark, **given}) == (400, why)
    assert world.seen("answered") == []
    assert asked(world, agent)["mark"] == mark


def test_who_asks_nothing_is_not_answered(world: World) -> None:
    """An agent that is idle, one that tasuki did not start, one that ended."""
    agent = asking(world, "rm -rf build")
    mark = asked(world, agent)["mark"]
    body = {"mark": mark, "choice": "1"}
    world.sql(f"UPDATE agents SET adopted = 0, ordered_at = NULL WHERE id = {agent}")
    anonymous = refusal(world, f"/api/agents/{agent}/answer", body)
    world.sql(f"UPDATE agents SET adopted = 1 WHERE id = {agent}")
    world.tmux("kill-pane", "-t", world.agent(agent)["pane"])
    retry_until(lambda: world.agent(agent)["ended_at"], 20)

    assert "is anonymous" in anonymous[1]
    assert refusal(world, f"/api/agents/{agent}/answer", body) == (400, "Agent is not active")
    assert world.agent(agent)["question"] is None
    assert refusal(world, "/api/agents/99/answer", body)[0] == 404


def test_the_command_line_asks_and_answers(world: World) -> None:
    """Without an answer it shows the question; a choice by its number is the answer."""
    agent = asking(world, COMMAND)
    shown = world.tasuki("agent", "answer", str(agent))
    given = world.tasuki("agent", "answer", str(agent), "3")
    world.idle(agent)

    assert shown.startswith("Allow Bash?\n    alembic downgrade -1")
    assert "  The agent says: “Run migration down”" in shown
    assert " 3  No" in shown
    assert given.strip() == f"Agent {agent} took it: 3. No"
    assert [one["text"] for one in world.seen("answered")] == ["3"]


def test_the_command_line_answers_what_it_has_shown(world: World) -> None:
    """Nothing before it has shown a question, and not the next one, which it shows instead."""
    agent = asking(world, "rm -rf build", "git push --force", "ls")
    first = asked(world, agent)
    unseen = world.tasuki("agent", "answer", str(agent), "1", code=1)
    world.tasuki("agent", "answer", str(agent), "--json")
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "1"})
    second = asked(world, agent, after=first["mark"])
    changed = world.tasuki("agent", "answer", str(agent), "1", code=1)
    typed = len(world.seen("answered"))
    given = world.tasuki("agent", "answer", str(agent), "1")
    third = asked(world, agent, after=second["mark"])
    last = world.tasuki("agent", "answer", str(agent), "3", "--mark", third["mark"])
    world.idle(agent)

    assert f"It was not shown here yet. Read it: tasuki agent answer {agent} --whole" in unseen
    assert "    git push --force\n" in changed
    assert "It asks something else than what was shown here last. Nothing was typed." in changed
    assert typed == 1
    assert [given.strip(), last.strip()] == [f"Agent {agent} took it: {one}" for one in ("1. Yes", "3. No")]  # fmt: skip
    assert [one["text"] for one in world.seen("answered")] == ["1", "1", "3"]


def test_a_terminal_is_asked_about_what_it_has_not_shown(world: World) -> None:
    """What another one has shown does not count; the question and its choices stand there, then one of its own."""
    agent = asking(world, "rm -rf build")
    world.tasuki("agent", "answer", str(agent))
    words = shlex.join((str(TASUKI), "agent", "answer", str(agent), "1"))
    pane = world.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", f"{words}; sleep 60").strip()
    retry_until(lambda: "Answer '1' to this? [y/N]" in world.screen(pane), 20)
    shown = world.screen(pane)
    answered = world.seen("answered")
    world.tmux("send-keys", "-t", pane, "y", "Enter")
    world.idle(agent)

    assert "    rm -rf build\n 1  Yes" in shown.replace(
        "  The agent says: “Run migration down”\n", ""
    )
    assert (answered, [one["text"] for one in world.seen("answered")]) == ([], ["1"])


LINES = "\n".join(("rm -rf build", *(f"echo {number}" for number in range(20)), "echo the end"))


def test_a_long_command_is_shown_whole_before_it_is_answered(world: World) -> None:
    """Its ends and its size at first; a script names the mark that is shown behind all of it."""
    agent = asking(world, LINES)
    mark = asked(world, agent)["mark"]
    shown = world.tasuki("agent", "answer", str(agent))
    refused = world.tasuki("agent", "answer", str(agent), "1", code=1)
    whole = world.tasuki("agent", "answer", str(agent), "--whole")
    seen = world.seen("answered")
    given = world.tasuki("agent", "answer", str(agent), "1", "--mark", mark)
    world.idle(agent)

    assert "    rm -rf build\n" in shown
    assert "    echo the end\n" in shown
    assert "echo 9\n" not in shown
    assert (
        f"22 lines, {len(LINES)} characters. All of it: tasuki agent answer {agent} --whole"
        in shown
    )
    assert (
        f"It is about 22 lines, {len(LINES)} characters. Read it: tasuki agent answer {agent} --whole"
        in refused
    )
    assert "".join(f"    {line}\n" for line in LINES.split("\n")) in whole
    assert f"Mark: {mark}" in whole
    assert seen == []
    assert given.strip() == f"Agent {agent} took it: 1. Yes"


def test_in_a_terminal_a_long_command_is_asked_about(world: World) -> None:
    """All of it is printed, then a question, whose answer by itself is no."""
    agent = asking(world, LINES)
    words = shlex.join((str(TASUKI), "agent", "answer", str(agent), "1"))
    pane = world.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", f"{words}; sleep 60").strip()
    for key in ("Enter", "y"):
        retry_until(lambda: "Answer '1' to this, 22 lines" in world.screen(pane), 20)
        assert LINES in world.screen(pane).replace("\n    ", "\n")
        world.tmux("send-keys", "-t", pane, key, "Enter")
        if key == "Enter":
            retry_until(lambda: "Nothing was answered." in world.screen(pane), 20)
            assert world.seen("answered") == []
            world.tmux("respawn-pane", "-k", "-t", pane, f"{words}; sleep 60")
            retry_until(lambda: "Nothing was answered." not in world.screen(pane), 20)
    world.idle(agent)

    assert [one["text"] for one in world.seen("answered")] == ["1"]
