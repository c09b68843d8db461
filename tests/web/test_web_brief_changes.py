"""Handoffs that were kept, changed from the dashboard: edited, pruned, started in a real tmux."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SECRET
from fakes.scripted_harness import install_scripted
from handoffs import made
from visitors import words
from waiting import retry_until
from web_reader import GOAL, Reader, reading

from tasuki.handoffs import create_event
from tasuki_testing import story


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who reads briefs."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


def edited(page: str) -> str:
    """The brief in the form that changes it, as a browser reads it."""
    found = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    assert found
    return html.unescape(found[1])


# -- edited ----------------------------------------------------------------------------


def test_an_edit_is_a_revision(reader: Reader) -> None:
    """What was kept stays; the edited brief is a handoff of its own, with its own size."""
    brief = reader.brief(reader.thread())
    (first,) = reader.vault.list_handoffs()
    text = edited(reader.page(f"{brief}/edit"))
    answer = reader.post(
        f"{brief}/edit", brief=text.replace("Raise the timeout", "Raise it").replace("\n", "\r\n")
    )
    newest, old = reader.vault.list_handoffs()

    assert (303, f"/briefs/{newest.id}") == (answer.status, answer.headers["location"])
    assert (first.id, first.id) == (newest.revises, old.id)
    assert text.replace("Raise the timeout", "Raise it").replace(
        first.id[:8], newest.id[:8]
    ) == reader.vault.load_brief(newest.id)
    assert text == reader.vault.load_brief(first.id)
    assert f"{newest.id[:8]} , revision 2 of {first.id[:8]}" in words(
        reader.page(f"/briefs/{newest.id}")
    )


def test_an_edit_of_the_goal_is_kept_to_the_letter(reader: Reader) -> None:
    """Line ends of the browser do not change it; a secret in it is asked about first, and stays typed."""
    brief = reader.brief(reader.thread())
    text = edited(reader.page(f"{brief}/edit"))
    goal = "Fix <b>this</b>:\n\n  1. one & two\n  2. \u201cthree\u201d"
    reader.post(f"{brief}/edit", brief=text.replace(GOAL, goal).replace("\n", "\r\n"))
    assert goal == reader.vault.list_handoffs()[0].goal.text
    refused = reader.post(f"{brief}/edit", brief=text.replace(GOAL, f"Use {SECRET} there"))

    assert 409 == refused.status
    assert "seems to contain a secret" in words(refused.body.decode())
    assert SECRET in edited(refused.body.decode())
    assert 2 == len(reader.vault.list_handoffs())
    reader.post(f"{brief}/edit", brief=text.replace(GOAL, f"Use {SECRET} there"), force="1")
    assert f"Use {SECRET} there" == reader.vault.list_handoffs()[0].goal.text


def test_marks_that_are_not_shown_stay_in_the_goal(reader: Reader) -> None:
    """An edit above a goal with marks of direction does not take them out of it."""
    goal = "Fix the title \u200f\u05e9\u05dc\u05d5\u05dd\u200e in the header, both ways"
    brief = reader.brief(reader.thread(), goal)
    text = edited(reader.page(f"{brief}/edit"))
    assert "\u200f" not in text
    unchanged = reader.post(f"{brief}/edit", brief=text)
    assert 1 == len(reader.vault.list_handoffs())
    reader.post(f"{brief}/edit", brief=text.replace("Raise the timeout", "Raise it"))

    assert brief == unchanged.headers["location"]
    assert [goal, goal] == [handoff.goal.text for handoff in reader.vault.list_handoffs()]
    assert reader.vault.load_brief(reader.vault.list_handoffs()[0].id).endswith(goal)


def test_a_secret_that_is_put_into_the_past_is_redacted(reader: Reader) -> None:
    """Only the goal is the user's to the letter."""
    brief = reader.brief(reader.thread())
    text = edited(reader.page(f"{brief}/edit")).replace("Raise the timeout", f"token {SECRET}")
    reader.post(f"{brief}/edit", brief=text)

    assert SECRET not in reader.vault.load_brief(reader.vault.list_handoffs()[0].id)


def test_an_empty_brief_is_refused(reader: Reader) -> None:
    """The draft is as it was."""
    brief = reader.brief(reader.thread())
    answer = reader.post(f"{brief}/edit", brief=" \r\n")

    assert 400 == answer.status
    assert "The brief is empty. Nothing was changed." in words(answer.body.decode())
    assert 1 == len(reader.vault.list_handoffs())


def test_an_edit_over_the_budget_is_told(reader: Reader) -> None:
    """The size without the goal stands below the text."""
    brief = reader.brief(reader.thread(), budget="800")
    text = edited(reader.page(f"{brief}/edit"))
    assert "over the budget" not in reader.page(f"{brief}/edit")
    reader.post(
        f"{brief}/edit",
        brief=text.replace(
            "</record-of-the-past>", f"{'more words ' * 900}\n</record-of-the-past>"
        ),
    )

    assert "of 800 tokens, not counting the goal: over the budget" in words(
        reader.page(f"/briefs/{reader.vault.list_handoffs()[0].id}/edit")
    )


# -- pruned ----------------------------------------------------------------------------


def pruned(page: str) -> dict[str, str]:
    """The fields of the form that deletes."""
    form = page.partition('<form method="post" action="/briefs/prune"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


def test_only_what_was_shown_is_pruned(reader: Reader) -> None:
    """A handoff that came to be among them behind the question stays; so do those that were started."""
    old, started = made(goal="Old one"), made(goal="Started one")
    for handoff in (old, started):
        reader.vault.save(handoff, "brief")
    reader.vault.append_event(started.id, create_event("started"))
    page = reader.page("/briefs/prune?days=30&keep=0&drafts=1")
    assert "Delete 1 permanently" in page
    assert "Old one" in page
    late = made(goal="Late one")
    reader.vault.save(late, "brief")
    answer = reader.post("/briefs/prune", **pruned(page))
    said = reader.page(answer.headers["location"])

    assert answer.status == 303
    assert "Deleted 1." in words(said)
    assert {started.id, late.id} == {handoff.id for handoff in reader.vault.list_handoffs()}


@pytest.mark.parametrize("query", ["days=x", "days=-1", "days=0&keep=0&drafts=0", "keep=9999999"])
def test_pruning_needs_to_know_which(reader: Reader, query: str) -> None:
    """A rule that makes no sense deletes nothing, and says so."""
    reader.vault.save(made(), "brief")

    assert 'role="alert"' in reader.page(f"/briefs/prune?{query}", 400)
    assert 1 == len(reader.vault.list_handoffs())


# -- started ---------------------------------------------------------------------------


@pytest.fixture
def panes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tmux of the test's own and a scripted `claude`; the folder of its programs."""
    sockets = tempfile.mkdtemp(prefix="t-", dir="/tmp")
    install_scripted(tmp_path / "bin")
    tmp_path.joinpath("script.json").write_text("{}")
    for name, value in {
        "TMUX_TMPDIR": sockets, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SHELL": "/bin/sh",
        "SCRIPTED_HARNESS": str(tmp_path / "script.json"), "SCRIPTED_LOG": str(tmp_path / "log.jsonl"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield tmp_path / "bin"
    subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)
    shutil.rmtree(sockets, ignore_errors=True)


def windows() -> list[str]:
    """The names of the windows in that tmux."""
    listed = subprocess.run(["tmux", "list-windows", "-a", "-F", "#{window_name}"], check=False, capture_output=True, text=True)  # fmt: skip
    return listed.stdout.split()


def screen(name: str) -> str:
    """What the window shows, without blanks and line ends."""
    shown = subprocess.run(["tmux", "capture-pane", "-p", "-t", f"tasuki:{name}"], check=False, capture_output=True, text=True)  # fmt: skip
    return "".join(shown.stdout.split())


def ready(reader: Reader, tmp_path: Path) -> str:
    """A brief whose thread's folder is there; its address."""
    project = tmp_path / "proj"
    project.mkdir()
    return reader.brief(reader.thread(story("claude", str(project))))


def test_a_successor_is_started(reader: Reader, panes: Path, tmp_path: Path) -> None:
    """It runs in tmux with the brief filled in and not sent; the page says where, and loading it anew starts no other."""
    brief = ready(reader, tmp_path)
    answer = reader.post(f"{brief}/start", to="claude", model="")
    page = reader.page(answer.headers["location"])
    (name,) = windows()

    assert (303, brief) == (answer.status, answer.headers["location"])
    assert name.startswith("handoff-")
    retry_until(lambda: "".join(GOAL.split())[-30:] in screen(name))
    assert "Claude Code runs in the tmux pane tasuki:0" in words(page)
    assert "Look at it: tmux -L default attach -t tasuki:0" in words(page)
    assert "started" in [one.kind for one in reader.vault.load_events(brief.rpartition("/")[2])]
    assert "Start another successor" in page
    assert '"kind":"prompt"' not in tmp_path.joinpath("log.jsonl").read_text().replace(" ", "")
    assert [name] == windows()


def test_a_successor_may_be_sent_the_brief_at_once(
    reader: Reader, panes: Path, tmp_path: Path
) -> None:
    """With the box checked the first prompt is sent, to the model that was named."""
    brief = ready(reader, tmp_path)
    reader.post(f"{brief}/start", to="claude", model="claude-haiku-9", send="1")
    log = tmp_path / "log.jsonl"

    retry_until(lambda: '"kind":"prompt"' in log.read_text().replace(" ", ""))
    assert "claude-haiku-9" in log.read_text()


def test_a_program_that_is_missing_is_told(reader: Reader, panes: Path, tmp_path: Path) -> None:
    """The sentence says what to install and that the brief is safe; the form stays as it was."""
    brief = ready(reader, tmp_path)
    answer = reader.post(f"{brief}/start", to="codex", model="some-model", send="1")
    page = answer.body.decode()

    assert 400 == answer.status
    assert "The program codex is not on your PATH" in words(page)
    assert "The brief is safe" in words(page)
    assert 'value="some-model"' in page
    assert 'value="codex" selected' in page
    assert "failed" in [one.kind for one in reader.vault.load_events(brief.rpartition("/")[2])]
    assert windows() == []


@pytest.mark.parametrize(("to", "said"), [("nobody", "Unknown harness"), ("aider", "starts no successor")])  # fmt: skip
def test_a_successor_that_cannot_be(reader: Reader, tmp_path: Path, to: str, said: str) -> None:
    """A harness that is not known, or starts nothing, is refused before anything is written down."""
    brief = ready(reader, tmp_path)
    answer = reader.post(f"{brief}/start", to=to)

    assert 400 == answer.status
    assert said in words(answer.body.decode())
    assert ["drafted"] == [one.kind for one in reader.vault.load_events(brief.rpartition("/")[2])]


def test_a_double_click_starts_one(reader: Reader, panes: Path, tmp_path: Path) -> None:
    """While a handoff is being started it is not started once more."""
    brief = ready(reader, tmp_path)
    hold = tmp_path / "hold"
    hold.touch()
    program = panes / "tmux"
    program.write_text(
        f"#!/bin/sh\nwhile [ -e '{hold}' ]; do sleep 0.05; done\nexec {shutil.which('tmux')} \"$@\"\n"
    )
    program.chmod(0o755)
    first = threading.Thread(target=reader.post, args=(f"{brief}/start",), kwargs={"to": "claude"})
    first.start()
    id = brief.rpartition("/")[2]
    retry_until(lambda: "started" in [one.kind for one in reader.vault.load_events(id)])
    answer = reader.post(f"{brief}/start", to="claude")
    hold.unlink()
    first.join(30)

    assert 409 == answer.status
    assert "This handoff is being started" in words(answer.body.decode())
    assert 1 == len(windows())


def test_a_thread_that_is_still_open_is_told(reader: Reader, panes: Path, tmp_path: Path) -> None:
    """The predecessor may go on working; who starts its successor is told which process it is."""
    brief = ready(reader, tmp_path)
    (kept,) = reader.vault.list_handoffs()
    sessions = reader.home / ".claude" / "sessions"
    sessions.mkdir()
    told = {"pid": os.getpid(), "sessionId": kept.predecessor.thread_id, "status": "busy"}
    (sessions / f"{os.getpid()}.json").write_text(json.dumps(told))
    reader.post(f"{brief}/start", to="claude")

    assert f"The thread is still open: Claude Code (process {os.getpid()})" in words(
        reader.page(brief)
    )
