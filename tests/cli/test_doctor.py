"""`tasuki doctor` says what works, what does not, and the one line that mends it."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import npm_programs as programs
import pytest
from hooks import Session, program

from tasuki.config.installation import build_install_line
from tasuki.doctor import inspect_harnesses
from tasuki.harness import registry
from tasuki.harness.claude.adapter import Claude


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user with Claude Code, a thread of it, and no other harness on the PATH."""
    session = Session(tmp_path).talk()
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    program(session, "claude", 'echo "2.1.330 (Claude Code)"')
    return session


def claude(session: Session, code: int = 0) -> dict[str, Any]:
    """What is said about Claude Code, as JSON."""
    done = session.run("doctor", "claude", "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    (found,) = json.loads(done.stdout)["harnesses"]
    return dict(found)


def test_the_versions_that_are_called_tested_are_those_that_the_tests_drive() -> None:
    """What the adapters say and the pins of the tests are the same."""
    tested = {name: registry.find_facts(name).tested for name in registry.BUILT_IN}
    assert programs.versions() == {name: version for name, version in tested.items() if version}


def test_a_harness_that_works_is_described_in_a_few_lines(session: Session) -> None:
    """Program, version, threads, successor, and how to hand off inside it; no line over 80 columns."""
    done = session.run("doctor")

    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    assert "Claude Code program 2.1.330, " in " ".join(text.split())
    assert "  threads    1, the newest can be read\n" in text
    assert (
        "  successor  can be started, with the brief filled into its input and not sent\n" in text
    )
    assert "tasuki install claude\n" in text
    assert "Not found: Codex" in text
    lines = [line for line in text.splitlines() if str(session.root) not in line]
    assert max(map(len, lines)) <= 80


def test_a_newcomer_reads_what_to_do_first(session: Session) -> None:
    """No program of an agent, no PATH with tasuki, no extra: each line says what is, and what helps."""
    session.env["PATH"] = "/usr/bin:/bin"
    shutil.rmtree(session.home)
    session.home.mkdir()
    (session.root / "bare").mkdir()
    (session.root / "bare" / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name in ('mcp', 'textual') else find(name, *rest)\n"
    )
    done = session.run("doctor", env={"PYTHONPATH": str(session.root / "bare")})
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())

    assert "; not on your PATH, so lines with `tasuki` need that" in said
    assert "; not installed: review, mcp. All of them:" in said
    (line,) = [
        line.strip() for line in done.stdout.splitlines() if "install " in line and "[" in line
    ]
    assert line == build_install_line("all")
    assert "Not found: Claude Code, Codex, " in said
    assert " opencode. Install one of them, then: tasuki doctor" in said
    assert "No threads of: tasuki chat, aider, SpecStory." in said


def test_what_is_installed_is_seen(session: Session) -> None:
    """All parts are there and run this tasuki: nothing to mend."""
    session.run("install", "claude", "--yes")
    found = claude(session)

    assert {part["state"] for part in found["parts"]} == {"there"}
    assert found["problems"] == []
    assert f"inside     /handoff GOAL ({len(found['parts'])} of {len(found['parts'])} parts)" in (
        session.run("doctor", "claude").stdout
    )


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "RUNS",
            "/gone/bin/tasuki",
            "What is installed runs /gone/bin/tasuki, which no longer exists.",
        ),
        (
            "UserPromptSubmit",
            "UserPromptSent",
            "A part is missing: a hook that intercepts /handoff",
        ),
        ('"timeout": 300', '"timeout": 3', "The installed parts are from an older version"),
        ('{\n  "hooks"', '{\n  "disableAllHooks": true, "hooks"', "Hooks are switched off."),
        ('"hooks"', '// mine\n"hooks"', "Claude Code skips the whole of "),
        ('"hooks"', '"a": [1,],\n"hooks"', "because of commas before a closing bracket in it."),
        ('"hooks"', '"hooks', "was not changed, and nothing was written"),
    ],
)
def test_what_is_broken_is_told_with_what_mends_it(
    session: Session, old: str, new: str, what: str
) -> None:
    """A program that is gone, a part that was taken out, an older one, hooks that are off, a damaged file."""
    session.run("install", "claude", "--yes")
    settings = session.home / ".claude" / "settings.json"
    text = settings.read_text()
    own = next(word for word in text.split() if word.endswith("/tasuki"))
    changed = text.replace(own if old == "RUNS" else old, new)
    assert changed != text
    settings.write_text(changed)

    problems = claude(session, code=1)["problems"]
    assert any(what in problem["what"] for problem in problems), problems
    assert all(problem["mend"] for problem in problems)
    if "disable" not in new and "hooks" not in new:
        session.run("install", "claude", "--yes")
        assert claude(session)["problems"] == []


def test_what_is_left_of_an_extra_that_is_gone_is_told(session: Session) -> None:
    """The tools were installed, and the extra that serves them is not there any more."""
    session.run("install", "claude", "--yes")
    (session.root / "without" / "mcp").mkdir(parents=True)
    (session.root / "without" / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'mcp' else find(name, *rest)\n"
    )
    session.env["PYTHONPATH"] = str(session.root / "without")
    (problem,) = claude(session, code=1)["problems"]
    assert "does not support it: tasuki's tools" in problem["what"]
    session.run("install", "claude", "--yes")

    assert claude(session)["problems"] == []
    assert not (session.home / ".claude.json").exists()


def test_a_status_line_of_the_users_own_is_no_problem(session: Session) -> None:
    """It is theirs; doctor says so, install says how to add the part."""
    settings = session.home / ".claude" / "settings.json"
    settings.write_text('{"statusLine": {"type": "command", "command": "date"}}')
    said = session.run("install", "claude", "--yes").stdout

    assert "tasuki status claude" in " ".join(said.split())
    assert json.loads(settings.read_text())["statusLine"]["command"] == "date"
    assert claude(session)["problems"] == []
    said = " ".join(session.run("doctor", "claude").stdout.split())
    assert "yours: a status line with context use" in said


def test_hooks_that_codex_was_not_told_to_trust_are_told(session: Session) -> None:
    """Trust is the user's to give, and the line says how."""
    program(session, "codex", "echo codex-cli 0.169.0")
    session.run("install", "codex", "--yes")
    done = session.run("doctor", "codex")
    assert done.returncode == 1
    assert (
        "! The hooks wait for your approval.\n    → Start codex, type /hooks and trust them."
        in done.stdout
    )

    config = session.home / ".codex" / "config.toml"
    config.write_text(
        config.read_text()
        + '\n[hooks.state."/x/hooks.json:user_prompt_submit:0:0"]\ntrusted_hash = "x"\n'
    )
    assert session.run("doctor", "codex").returncode == 0


def test_another_version_and_one_that_does_not_answer_are_told(session: Session) -> None:
    """A program that hangs at `--version` costs its time limit, once for all of them."""
    program(session, "claude", "echo 2.0.76")
    for name in ("codex", "gemini", "pi", "opencode"):
        program(session, name, "sleep 20")
    began = time.monotonic()
    done = session.run("doctor")

    assert time.monotonic() - began < 7  # 4 s, and what a busy machine takes to start Python
    assert "2.0.76 (tested with 2.1.330)" in done.stdout
    assert "of unknown version (tested with 0.169.0)" in done.stdout


@pytest.mark.parametrize(
    "script",
    [
        "sleep 2; echo codex-cli 0.168.1; echo WARNING: no 1.2.3 >&2",
        "echo codex-cli 0.168.1; sleep 20",
    ],
)
def test_a_program_that_is_slow_to_start_or_to_end_has_its_version(
    session: Session, script: str
) -> None:
    """The first start of a large program takes seconds, and one may hang once it told."""
    program(session, "codex", script)

    assert "0.168.1 (tested with 0.169.0)" in session.run("doctor", "codex").stdout


def test_a_conversation_without_words_is_not_counted(session: Session) -> None:
    """As many threads as `tasuki threads` lists."""
    empty = session.thread.with_name("00000000-0000-7000-8000-00000000000e.jsonl")
    empty.write_text('{"type": "summary", "summary": "x", "leafUuid": "y"}\n')

    assert claude(session)["threads"]["count"] == 1
    assert len(session.run("threads", "--json").stdout.strip()) > 2


def test_the_version_of_an_npm_package_is_read_and_the_program_not_started(
    session: Session,
) -> None:
    """Starting it may take a second and write to its folder."""
    folder = session.root / "lib" / "node_modules" / "@openai" / "codex"
    (folder / "bin").mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "@openai/codex", "version": "0.170.1"}')
    script = folder / "bin" / "codex.js"
    script.write_text(f"#!/bin/sh\ntouch {session.root}/started\n")
    script.chmod(0o755)
    (session.root / "bin" / "codex").symlink_to(script)

    assert "0.170.1 (tested with 0.169.0)" in session.run("doctor", "codex").stdout
    assert not (session.root / "started").exists()


def test_a_thread_that_cannot_be_read_is_a_problem(session: Session) -> None:
    """The newest one is read to its end, not only listed."""
    session.thread.write_text('{"type": "user", "sessionId": "x", "message": {"content": "a"}')
    found = claude(session, code=1)

    assert found["threads"]["readable"] is False
    assert "The newest thread cannot be read: " in found["problems"][0]["what"]


@pytest.mark.parametrize("part", ["read_head", "read"])
def test_a_thread_on_which_the_reader_fails_is_a_problem(
    session: Session, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """What nobody foresaw in one thread is told with its file; the rest of the report stands."""

    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    for name, value in session.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Claude, part, fail)
    report = inspect_harnesses()
    (found,) = [harness for harness in report.harnesses if harness.name == "claude"]

    assert report.tasuki
    assert found.threads.count == 1
    assert not found.threads.readable
    assert f"{session.thread} cannot be read as a thread of Claude Code" in found.problems[0].what
    assert "RecursionError: too deep" in found.problems[0].what


def test_an_unknown_name_is_wrong_usage(session: Session) -> None:
    """With the nearest name and those that are known."""
    done = session.run("doctor", "claud")

    assert done.returncode == 2
    assert "Unknown harness 'claud'. Did you mean claude? Known: claude, codex" in done.stderr


def test_what_cannot_be_read_hides_nothing_else(session: Session) -> None:
    """Settings, threads and a record that cannot be opened are each told; the rest of the report stands."""
    session.run("install", "claude", "--yes")
    for name in (".codex/config.toml", ".gemini/settings.json", ".pi/agent/sessions"):
        path = session.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(path.name)  # a circle, which root cannot open either
    done = session.run("doctor", "--json")
    report = json.loads(done.stdout)
    found = {h["name"]: h["problems"] for h in report["harnesses"]}

    assert done.returncode == 1
    assert found["claude"] == []
    for name in ("codex", "gemini", "pi"):
        (problem,) = found[name]
        assert "annot be read" in problem["what"] or "Cannot read" in problem["what"]
        assert problem["mend"]
        assert "Nothing was written" not in problem["what"]
    assert "Codex\n" in session.run("doctor").stdout


def test_a_closed_data_folder_is_told_once(session: Session) -> None:
    """It stands with tasuki itself, not with each harness that has a line in its record."""
    (circle := session.home / "circle").symlink_to(circle)
    done = session.run("doctor", "--json", env={"TASUKI_DATA": str(circle / "data")})
    report = json.loads(done.stdout)

    assert done.returncode == 1
    (problem,) = report["problems"]
    assert str(circle) in problem["what"]
    assert "TASUKI_DATA" in problem["mend"]
    assert [h["problems"] for h in report["harnesses"] if h["problems"]] == []


def test_a_damaged_record_is_told_and_kept(session: Session) -> None:
    """What tasuki wrote down of its installations, once damaged, is a problem; a new one leaves the old beside it."""
    session.run("install", "claude", "--yes")
    (record,) = session.home.parent.rglob("installed.json")
    record.write_text("{bad")
    told = json.loads(session.run("doctor", "--json").stdout)["problems"]
    settings = session.home / ".claude" / "settings.json"
    settings.unlink()
    done = session.run("install", "claude", "--yes")

    assert "The record of what tasuki installed cannot be read" in told[0]["what"]
    assert done.returncode == 0, done.stderr
    assert "cannot be read. It is kept as" in " ".join(done.stdout.split())
    assert record.with_name("installed.json.damaged").read_text() == "{bad"
    assert json.loads(session.run("doctor", "--json").stdout)["problems"] == []


def test_every_damaged_record_is_kept(session: Session) -> None:
    """A second damage does not replace the copy of the first, and an empty record is a damaged one."""
    for content in ("{bad", "{worse", ""):
        session.run("install", "claude", "--yes")
        (record,) = session.home.parent.rglob("installed.json")
        record.write_text(content)
        told = json.loads(session.run("doctor", "--json").stdout)["problems"]
        assert "The record of what tasuki installed cannot be read" in told[0]["what"]
        (session.home / ".claude" / "settings.json").unlink()
        done = session.run("install", "claude", "--yes")
        assert "cannot be read. It is kept as" in " ".join(done.stdout.split())
    names = ("installed.json.damaged", "installed.json.damaged-1", "installed.json.damaged-2")

    assert [record.with_name(name).read_text() for name in names] == ["{bad", "{worse", ""]


def test_a_variable_that_nobody_knows_is_told_once_and_not_by_other_commands(
    session: Session,
) -> None:
    """By the doctor and by `tasuki config`; hooks and JSON of others are not disturbed."""
    env = {"TASUKI_BUGDET": "500"}
    told = "TASUKI_BUGDET is set in the environment, but tasuki does not know it. Did you mean TASUKI_BUDGET?"
    (problem,) = json.loads(session.run("doctor", "--json", env=env).stdout)["problems"]
    assert problem == {"what": told, "mend": "unset TASUKI_BUGDET"}
    assert session.run("config", env=env).stderr == f"tasuki: {told}\n"

    done = session.run("threads", "--json", env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_settings_file_that_is_not_there_is_a_problem(session: Session) -> None:
    """So is one that cannot be understood; `tasuki config` shows what holds."""
    done = session.run("doctor", "--json", env={"TASUKI_CONFIG": "/nowhere/config.toml"})
    (problem,) = json.loads(done.stdout)["problems"]

    assert problem["what"] == (
        "TASUKI_CONFIG names /nowhere/config.toml, which does not exist. The defaults apply."
    )
    assert problem["mend"] == "tasuki config"
