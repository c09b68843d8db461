"""Handoffs started from a thread in the dashboard: the form, the phases, and what is refused."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SECRET
from visitors import words
from waiting import retry_until
from web_reader import GOAL, Reader, harmful, reading

from tasuki.web.pages.threads.drafts import DRAFTS_AT_ONCE, JOBS
from tasuki_testing import ThreadBuilder


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who starts handoffs."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


class Agent:
    """A `claude` on the PATH that says nothing as long as a file is there, and then fails."""

    def __init__(self, folder: Path) -> None:
        self.hold = folder / "hold"
        self.hold.touch()
        folder.joinpath("bin").mkdir()
        program = folder / "bin" / "claude"
        program.write_text(f"#!/bin/sh\nwhile [ -e '{self.hold}' ]; do sleep 0.05; done\nexit 1\n")
        program.chmod(0o755)

    def fail(self) -> None:
        """Let it end."""
        self.hold.unlink(missing_ok=True)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An author that takes as long as a test needs."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    made = Agent(tmp_path)
    yield made
    made.fail()


def fields(page: str) -> dict[str, str]:
    """The fields of the form beside a thread, as they are filled in."""
    goal = re.search(r'<textarea id="goal"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    author = re.search(r'name="author" value="(\w+)" checked', page)
    to = re.search(r'<select id="to".*?value="(\w+)" selected', page, re.DOTALL)
    budget = re.search(r'id="budget"[^>]* value="([^"]*)"', page)
    return {
        name: found[1] if found else ""
        for name, found in (("goal", goal), ("author", author), ("to", to), ("budget", budget))
    }


def refusal(page: str) -> str:
    """The sentence beside the form."""
    form = page.partition('<form class="panel aside"')[2]
    found = re.search(r'role="alert">(.*?)</p>', form, re.DOTALL)
    return words(found[1]) if found else ""


# -- made ------------------------------------------------------------------------------


def test_a_goal_becomes_a_draft(reader: Reader) -> None:
    """The form of a thread makes a handoff of it, which is kept; nothing is started."""
    where = reader.thread()
    brief = reader.brief(where, author="offline", budget="1,500", to="pi")
    (kept,) = reader.vault.list_handoffs()

    assert f"/briefs/{kept.id}" == brief
    assert (GOAL, "pi", 1500, "offline") == (
        kept.goal.text,
        kept.to,
        kept.budget,
        kept.draft.authorship.author,
    )
    assert ["drafted"] == [event.kind for event in reader.vault.load_events(kept.id)]
    assert GOAL in reader.page(brief)


@pytest.mark.parametrize(
    "goal",
    ['Add a test.\r\n\r\n  - "quoted" <b>not bold</b> & café\r\n  - last line', "Fix the title \u200f\u05e9\u05dc\u05d5\u05dd\u200e in the header, both ways",
     "Write 5 < 6 && x > 'y' into the README of the project", "\tIndented: keep the tab and the blanks at the end  "],
)  # fmt: skip
def test_a_goal_is_kept_to_the_letter(reader: Reader, goal: str) -> None:
    """Line ends are newlines again; marks of direction, quotes, blanks and markup stay as they were typed."""
    brief = reader.brief(reader.thread(), goal)
    typed = goal.replace("\r\n", "\n")

    assert typed == reader.vault.list_handoffs()[0].goal.text
    assert reader.get(f"{brief}/brief.md").body.decode().endswith(f"\n{typed}")
    assert harmful(reader.page(brief)) == []


def test_the_form_is_filled_in_from_the_settings(reader: Reader, tmp_path: Path) -> None:
    """Budget, author and successor are those of the user's settings."""
    tmp_path.joinpath("config.toml").write_text('budget = 1234\nto = "codex"\n')

    assert fields(reader.page(reader.thread())) == {
        "goal": "",
        "author": "offline",
        "to": "codex",
        "budget": "1234",
    }


def test_a_broken_setting_leaves_the_thread_readable(reader: Reader, tmp_path: Path) -> None:
    """The thread is shown, and what is wrong with the settings stands beside the form."""
    where = reader.thread()
    tmp_path.joinpath("config.toml").write_text("budget = -1\n")
    page = reader.page(where)

    assert "Please fix the login timeout" in words(page)
    assert "budget" in refusal(page)
    assert 400 == reader.draft(where).status


# -- refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "more", "said"),
    [("continue", {}, "does not say what to do"), ("", {}, "A handoff needs a goal"), ("Fix \u202eit", {}, "Be specific"),
     (f"Use the token {SECRET} for the upload", {}, "seems to contain a secret"), (GOAL, {"budget": "many"}, "whole number of tokens"),
     (GOAL, {"budget": "0"}, "budget"), (GOAL, {"to": "nobody"}, "Unknown harness"), (GOAL, {"author": "me"}, "author")],
)  # fmt: skip
def test_a_refusal_stands_beside_the_form(
    reader: Reader, goal: str, more: dict[str, str], said: str
) -> None:
    """It is the sentence of the command line; what was typed is still there, and nothing was kept."""
    answer = reader.draft(reader.thread(), goal, **more)
    page = answer.body.decode()

    assert 400 <= answer.status < 500
    assert said in refusal(page)
    assert SECRET not in refusal(page)
    assert goal == fields(page)["goal"].replace("&amp;", "&")
    assert more.get("budget", fields(page)["budget"]) == fields(page)["budget"]
    assert reader.vault.list_handoffs() == []


def test_who_insists_may_be_vague(reader: Reader) -> None:
    """The box beside the form stands for --force."""
    reader.brief(reader.thread(), "continue", force="1")
    (kept,) = reader.vault.list_handoffs()

    assert (True, "continue") == (kept.goal.forced, kept.goal.text)


def test_a_thread_without_a_conversation(reader: Reader) -> None:
    """The draft says why there is none; the way back leads to the form as it was filled in."""
    where = reader.thread(ThreadBuilder("claude").user("Only this"))
    job = reader.draft(where, budget="777").headers["location"]
    page = retry_until(lambda: "Not drafted" in (p := reader.page(job)) and p)

    assert "Nothing to hand off (no messages yet)" in words(page)
    assert "http-equiv" not in page
    (back,) = re.findall(r'<a class="btn" href="([^"]+)">Back to the thread</a>', page)
    again = reader.page(back.replace("&amp;", "&"))
    assert "Nothing to hand off" in refusal(again)
    assert (GOAL, "777") == (fields(again)["goal"], fields(again)["budget"])


def test_an_author_that_cannot_write_says_why(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, no program, no way to ask: the choice is there with its reason, and not to be chosen."""
    monkeypatch.setenv("PATH", "/nowhere")
    page = reader.page(reader.thread())

    assert re.search(r'value="model" disabled', page)
    assert re.search(r'value="agent" disabled', page)
    assert "Model not possible: The thread's own model is" in words(page)
    assert "Agent not possible: no program claude on the PATH of the server" in words(page)
    assert "offline" == fields(page)["author"]


def test_an_author_that_can_write_may_be_chosen(
    reader: Reader, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key for the model, and a program for the agent, nothing is refused."""
    monkeypatch.setenv("TASUKI_MODEL", "anthropic/claude-3-haiku")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    page = reader.page(reader.thread())

    assert "not possible" not in words(page)
    assert " disabled" not in page
    assert "sk-ant" not in page


# -- under way -------------------------------------------------------------------------


def test_the_phases_are_followed(reader: Reader, agent: Agent) -> None:
    """A draft under way shows its phases; by itself, by a script's asking, or by hand."""
    job = reader.draft(reader.thread(), author="agent").headers["location"]
    page = retry_until(lambda: "Extracting" in (p := reader.page(job)) and p)

    assert "Analyzing conversation" in words(page)
    assert f'hx-get="{job}" hx-trigger="every 500ms"' in page
    assert '<noscript><meta http-equiv="refresh" content="1"></noscript>' in page
    assert f'<a class="btn" href="{job}">Look again</a>' in page
    asked = reader.served.ask("GET", job, token="", Cookie=reader.cookie, HX_Request="true")
    assert asked.body.decode().strip().startswith('<div class="sheet" id="draft"')
    agent.fail()
    where = retry_until(lambda: reader.get(job).headers.get("location"), 30)
    moved = reader.served.ask("GET", job, token="", Cookie=reader.cookie, HX_Request="true")
    assert where == moved.headers["hx-redirect"]
    assert "Written offline, from facts and quotes alone." in words(reader.page(where))


def test_a_draft_can_be_cancelled(reader: Reader, agent: Agent) -> None:
    """What was typed is still in the form behind a draft that is wanted no more, and none is kept."""
    job = reader.draft(reader.thread(), author="agent").headers["location"]
    retry_until(lambda: "Extracting" in reader.page(job))
    answer = reader.post(f"{job}/cancel")

    assert 303 == answer.status
    assert (GOAL, "agent") == (
        fields(p := reader.page(answer.headers["location"]))["goal"],
        fields(p)["author"],
    )
    assert refusal(p) == ""
    assert "Cancelled" in reader.page(job)
    agent.fail()
    retry_until(lambda: JOBS.load_job(job.rpartition("/")[2]).ended, 30)
    assert reader.vault.list_handoffs() == []


def test_only_a_few_drafts_are_made_at_once(reader: Reader, agent: Agent) -> None:
    """One more than that is refused beside the form, also while cancelled ones are still at work."""
    where = reader.thread()
    jobs = [reader.draft(where, author="agent").headers["location"] for _ in range(DRAFTS_AT_ONCE)]
    reader.post(f"{jobs[0]}/cancel")
    answer = reader.draft(where)

    assert 400 == answer.status
    assert f"{DRAFTS_AT_ONCE} drafts are under way" in refusal(answer.body.decode())
    agent.fail()
    retry_until(lambda: all(reader.get(job).status == 303 for job in jobs[1:]), 30)
    retry_until(lambda: reader.draft(where).status == 303)


def test_a_draft_that_nobody_knows(reader: Reader) -> None:
    """A server that was started anew says so."""
    said = words(reader.page("/drafts/0123456789abcdef", 404))

    assert "the server was restarted" in said


def test_a_draft_of_a_thread_that_is_not_there(reader: Reader) -> None:
    """It is answered as the page of that thread is."""
    assert 404 == reader.draft("/threads/claude/00000000-0000-7000-8000-00000000dead").status
    assert 404 == reader.post("/threads/claude/x/handoff?path=/etc/hosts.none", goal=GOAL).status
