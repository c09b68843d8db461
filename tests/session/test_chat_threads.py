"""Sessions of `tasuki chat` are threads like all others: listed, found, read and handed off."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fakes import FAKE
from fakes.acp_agent import AcpRule, AcpScript, AcpStep
from forked import CHAT, COMMAND, run_tasuki
from sessions import DOCUMENT

GOAL = "write the migration for the heliograph table"
RULES = (
    AcpRule("Write a handoff document", (AcpStep(say=DOCUMENT),)),
    AcpRule("heliograph", (AcpStep(say="The heliograph table lacks an index on `blinked_at`."),)),
)
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs tasuki in the folder of a project, with lines as its standard input."""
    project = tmp_path / "proj"
    project.mkdir()
    env = {
        "HOME": str(tmp_path), "PATH": os.environ["PATH"], "TASUKI_DATA": str(tmp_path / "data"),
        "LANG": "C.UTF-8",
    }  # fmt: skip

    def call(
        *arguments: str,
        lines: tuple[str, ...] = (),
        cwd: Path = project,
        config: str = os.devnull,
    ) -> "subprocess.CompletedProcess[str]":
        modules = CHAT if arguments[0] == "chat" else COMMAND
        told = "".join(f"{line}\n" for line in lines)
        given = {**env, "TASUKI_CONFIG": config}
        return run_tasuki(arguments, env=given, cwd=cwd, input=told, modules=modules)

    return call


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """The command of a scripted agent."""
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(AcpScript(RULES, log=str(tmp_path / "log.jsonl"))))
    return f"{sys.executable} {FAKE} acp_agent {script}"


def test_a_session_is_listed_found_read_and_handed_off(
    run: Run, agent: str, tmp_path: Path
) -> None:
    """By its place in the folder, its id, and what was said in it."""
    talked = run("chat", "--agent", agent, lines=("what is wrong with the heliograph?", "and now"))
    assert talked.returncode == 0, talked.stderr

    (head,) = json.loads(run("threads", "--json").stdout)["threads"]
    assert (head["harness"], head["cwd"]) == ("tasuki", str(tmp_path / "proj"))
    assert head["first_words"] == "what is wrong with the heliograph?"
    (same,) = json.loads(run("threads", "--all", "--harness", "tasuki", "--json").stdout)["threads"]
    assert same == head

    found = run("find", "heliograph", "index")
    assert f"{head['id'][:8]}" in found.stdout
    assert "lacks an index on `blinked_at`" in found.stdout
    for spec in ("@1", "tasuki", head["id"], head["path"]):
        assert "lacks an index" in run("read", f"{spec}#2").stdout, spec
    handed = run("handoff", "--from", head["id"], GOAL, "--to", "claude", "--print")
    assert handed.returncode == 0, handed.stderr
    assert "lacks an index on `blinked_at`" in handed.stdout
    assert run("handoff", GOAL, "--print").stdout.endswith(f"{GOAL}\n")


def test_both_sessions_of_a_handoff_inside_the_chat_are_listed(
    run: Run, agent: str, tmp_path: Path
) -> None:
    """The one that wrote the document and the one that goes on with it, in their chain."""
    run("chat", "--agent", agent, lines=("the heliograph", "/handoff the index", "and now"))

    heads = json.loads(run("threads", "--json").stdout)["threads"]
    assert {h["path"] for h in heads} == set(map(str, list_sessions(tmp_path)))
    assert len(heads) == 2
    asked = run("read", heads[0]["id"], "what does the heliograph table lack?")
    assert "blinked_at" in asked.stdout, "the question goes back to the session before"


def test_a_session_of_a_worktree_and_one_of_a_folder_inside_are_near(
    run: Run, agent: str, tmp_path: Path
) -> None:
    """As threads of other harnesses: where a folder has none, those of its project are offered."""
    project = tmp_path / "proj"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    inside = project / "src"
    inside.mkdir()
    run("chat", "--agent", agent, "--cwd", str(project), lines=("the heliograph",), cwd=tmp_path)

    listed = run("threads", cwd=inside)
    assert "heliograph" in listed.stdout
    assert "in the same project" in listed.stderr
    assert run("handoff", GOAL, "--print", cwd=inside).returncode == 0


def test_a_session_through_a_link_is_of_the_folder_itself(
    run: Run, agent: str, tmp_path: Path
) -> None:
    """`--cwd LINK` is the folder that it leads to, as the shell's own folder is."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "proj")
    run("chat", "--agent", agent, "--cwd", str(link), lines=("the heliograph",), cwd=tmp_path)

    for cwd in (tmp_path / "proj", link):
        (head,) = json.loads(run("threads", "--json", cwd=cwd).stdout)["threads"]
        assert head["harness"] == "tasuki"


def test_a_session_kept_elsewhere_is_read_by_its_path(run: Run, agent: str, tmp_path: Path) -> None:
    """A program that keeps its sessions in a folder of its own hands them off by path."""
    run("chat", "--agent", agent, lines=("the heliograph",))
    (file,) = list_sessions(tmp_path)
    moved = file.rename(tmp_path / "elsewhere.jsonl")

    assert json.loads(run("threads", "--all", "--json").stdout)["threads"] == []
    assert "lacks an index" in run("read", f"{moved}#2").stdout
    handed = run("handoff", "--from", str(moved), GOAL, "--print")
    assert handed.returncode == 0, handed.stderr


def test_sessions_of_tasuki_are_not_copied(run: Run, agent: str, tmp_path: Path) -> None:
    """Only the user deletes them: a handoff inside the chat is made without a copy, and without a complaint."""
    (tmp_path / "config.toml").write_text('keep_threads = "all"\n')
    lines = ("the heliograph", "/handoff the index", "and now")
    done = run("chat", "--agent", agent, lines=lines, config=str(tmp_path / "config.toml"))

    assert done.returncode == 0, done.stderr
    assert "New session started with handoff context" in done.stderr
    assert "copy" not in done.stderr
    assert list((tmp_path / "data").glob("threads/*.zst")) == []


def list_sessions(root: Path) -> list[Path]:
    """The files of all sessions of tasuki."""
    return list((root / "data" / "sessions").glob("*/*.jsonl"))
