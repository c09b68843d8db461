"""`tasuki install` and `uninstall` as a user calls them."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from hooks import Session, program
from terminals import Terminal


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user with Claude Code and Codex."""
    session = Session(tmp_path)
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    for name in ("claude", "codex"):
        program(session, name, "echo 1.0")
    return session


def everything(session: Session) -> dict[str, bytes]:
    """Every file of the home."""
    return {str(p): p.read_bytes() for p in session.home.rglob("*") if p.is_file()}


def test_a_dry_run_shows_every_line_and_writes_nothing(session: Session) -> None:
    """Files, what is added to them, and the text itself."""
    for flag in ("--dry-run", "--print"):
        done = session.run("install", "claude", flag)

        assert done.returncode == 0
        assert "~/.claude/commands/handoff.md (new)\n    + the command /handoff\n" in done.stdout
        assert "+ argument-hint: <goal of the next session>" in done.stdout
        assert "Nothing was written." in done.stdout
        assert everything(session) == {}


def test_several_harnesses_are_installed_and_taken_out_again(session: Session) -> None:
    """`--all` means those that are here; the second run has nothing to do; nothing is left behind."""
    settings = session.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    before = everything(session)
    done = session.run("install", "--all", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Hand off inside Claude Code: /handoff GOAL" in done.stdout
    assert "Hand off inside Codex: $handoff GOAL" in done.stdout
    assert "/hooks" in done.stdout
    after = everything(session)
    assert session.run("install", "claude", "codex", "--yes").stdout.count("Nothing to do.") == 2
    assert everything(session) == after

    assert session.run("uninstall", "claude", "codex", "--yes").returncode == 0
    assert everything(session) == before
    assert not (session.home / ".codex").exists()
    assert session.run("uninstall", "codex", "-y").stdout.endswith(
        "Nothing of tasuki is installed.\n"
    )
    done = session.run("uninstall", "--all", "--yes")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0, "tasuki is not installed in any harness."
    )  # fmt: skip


def test_without_a_terminal_nothing_is_written_unasked(session: Session) -> None:
    """Names or --all, and --yes, are needed then."""
    for arguments, told in (
        (("install",), "Name one or more, or use --all."),
        (("install", "claude"), "add --yes, or check with --dry-run"),
        (("uninstall",), "Name a harness"),
        (("install", "specstory"), "tasuki adds nothing to SpecStory"),
        (("install", "clod"), "Unknown harness 'clod'"),
    ):
        done = session.run(*arguments)
        assert done.returncode == 2
        assert told in " ".join(done.stderr.split()), done.stderr
    assert everything(session) == {}


def test_what_keeps_it_from_working_fits_a_narrow_terminal(session: Session) -> None:
    """Wrapped as every other sentence is; only a path is longer."""
    settings = session.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{} // mine")
    session.env["COLUMNS"] = "40"
    lines = session.run("install", "claude", "--dry-run").stdout.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("  ! "))

    assert [row for row in lines[begin : begin + 5] if len(row) > 40 and "/" not in row] == []


def test_a_pipe_in_the_place_of_a_settings_file_is_an_error(session: Session) -> None:
    """Nobody writes into it, so to read it would never end; nor would the doctor."""
    pipes = [
        session.home / name for name in (".claude/settings.json", ".codex/config.toml", ".bashrc")
    ]
    for pipe in pipes:
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe)
    done = session.run("install", "claude", "codex", "--yes")

    assert done.returncode == 1
    assert f"Cannot read {pipes[0]}: it is a pipe or a device. Nothing was written." in done.stderr
    assert session.run("doctor", "claude", "codex").returncode == 1
    assert session.run("uninstall", "--all", "--yes").returncode == 1
    assert all(pipe.is_fifo() for pipe in pipes)


def test_a_file_that_cannot_be_used_fails_its_harness_alone(session: Session) -> None:
    """The other one is installed; the sentence names the file, and the exit code is 1."""
    settings = session.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ no json")
    done = session.run("install", "claude", "codex", "--yes")

    assert done.returncode == 1
    assert (
        f"tasuki: Claude Code: {settings} was not changed, and nothing was written" in done.stderr
    )
    assert settings.read_text() == "{ no json"
    assert not (session.home / ".claude" / "commands").exists()
    assert (session.home / ".codex" / "hooks.json").exists()


ALL = ("claude", "codex", "gemini", "opencode", "copilot", "pi", "omp")


def list_all(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below one."""
    return {str(p): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("names", [*[(name,) for name in ALL], ALL])
def test_nothing_is_left_of_an_installation(session: Session, names: tuple[str, ...]) -> None:
    """Every file of the home is what it was, and no folder is left, tasuki's own among them."""
    del session.env["TASUKI_DATA"], session.env["TASUKI_CONFIG"]
    settings = session.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    before = list_all(session.home)
    done = session.run("install", *names, "--fleet", "--keep", "--yes")
    assert done.returncode == 0, done.stderr
    assert any(path.endswith("/tasuki/fleet/hook.sh") for path in list_all(session.home))

    done = session.run("uninstall", *names, "--yes")
    assert done.returncode == 0, done.stderr
    assert list_all(session.home) == before


def test_the_script_of_the_fleet_stays_as_long_as_a_hook_runs_it(session: Session) -> None:
    """And where a server kept something beside it."""
    script = session.data / "fleet" / "hook.sh"
    session.run("install", "claude", "codex", "--fleet", "--yes")
    session.run("uninstall", "claude", "--yes")
    assert script.exists()
    (session.data / "fleet" / "token").touch()
    session.run("uninstall", "codex", "--yes")
    assert script.exists()
    (session.data / "fleet" / "token").unlink()
    session.run("uninstall", "codex", "--yes")
    assert not script.parent.exists()


def test_what_stays_is_told_with_what_removes_it(session: Session) -> None:
    """The data and what it holds, the settings, the lines of the shell, a service, the program."""
    (session.data / "handoffs").mkdir(parents=True)
    (session.data / "index.db").write_bytes(bytes(12_000))
    (session.home / ".bashrc").write_text('# tasuki completion\neval "$(tasuki completion bash)"\n')
    service = session.home / ".config" / "systemd" / "user" / "tasuki.service"
    service.parent.mkdir(parents=True)
    service.touch()
    said = session.run("uninstall", "--all", "--yes").stdout

    assert (
        f"  {session.data}, 12 kB: handoffs, the search index\n    rm -rf {session.data}\n" in said
    )
    assert f", your settings\n    rm {session.config}\n" in said
    assert "  ~/.bashrc, line 2, completion\n    delete that line in your editor\n" in said
    assert f"    systemctl --user disable --now tasuki; rm {service}\n" in said
    assert said.endswith(" -m pip uninstall tasuki\n")
    assert "What stays" not in session.run("uninstall", "claude", "--yes").stdout


def test_no_command_removes_what_is_not_of_tasuki_alone(session: Session) -> None:
    """A data folder that others use too is named without one; behind a link is the real folder."""
    shared, link = session.root / "shared", session.root / "link"
    (shared / "handoffs").mkdir(parents=True)
    (shared / "notes.txt").touch()
    hidden = session.root / "da\u200bta"
    hidden.mkdir()
    for folder in ("/", str(session.home), str(session.root), str(shared), str(hidden)):
        session.env["TASUKI_DATA"] = folder
        assert "rm -rf" not in session.run("uninstall", "--all", "--yes").stdout, folder
    link.symlink_to(session.data)
    (session.data / "handoffs").mkdir(parents=True)
    session.env["TASUKI_DATA"] = str(link)
    session.run("find", "word")  # The index and its lock are tasuki's own.
    said = session.run("uninstall", "--all", "--yes").stdout

    assert f"    rm -rf {session.data}; rm {link}\n" in said


def test_settings_in_a_read_only_store_are_left_to_the_user(session: Session) -> None:
    """What to add is printed to the letter, and the rest is installed; what to remove likewise."""
    store, settings = session.root / "store.json", session.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    store.write_text('{"model": "opus"}\n')
    store.chmod(0o444)
    settings.symlink_to(store)
    done = session.run("install", "claude", "--yes")
    assert done.returncode == 0, done.stderr
    told = "~/.claude/settings.json cannot be written. Add this to your configuration: { "
    assert told in " ".join(done.stdout.split())
    assert "  The rest is done. Hand off inside Claude Code: /handoff GOAL\n" in done.stdout
    start = done.stdout.index("\n      {") + 1
    wanted = json.loads(done.stdout[start : done.stdout.index("\n      }\n") + 9])
    assert set(wanted) == {"hooks", "statusLine"}
    assert (session.home / ".claude" / "commands" / "handoff.md").exists()
    assert store.read_text() == '{"model": "opus"}\n'
    again = session.run("install", "claude", "--yes").stdout
    assert "Nothing to do" not in again
    assert "Done." not in again

    store.chmod(0o600)
    store.write_text(json.dumps({"model": "opus", **wanted}))
    store.chmod(0o444)
    assert "Nothing to do" in session.run("install", "claude", "--yes").stdout
    for name in ("claude", "--all"):
        gone = session.run("uninstall", name, "--yes")
        assert gone.returncode == 0, gone.stderr
        assert "Remove this from your configuration:" in " ".join(gone.stdout.split())
        assert "statusLine" in gone.stdout
        assert not (session.home / ".claude" / "commands").exists()


def test_folders_that_were_moved_are_followed(session: Session) -> None:
    """CLAUDE_CONFIG_DIR and CODEX_HOME name them."""
    moved = session.root / "moved"
    session.env |= {"CLAUDE_CONFIG_DIR": str(moved / "c"), "CODEX_HOME": str(moved / "x")}
    session.run("install", "claude", "codex", "--yes")

    assert everything(session) == {}
    assert {str(p.relative_to(moved)) for p in moved.rglob("*") if p.is_file()} >= {
        "c/.claude.json", "c/settings.json", "c/commands/handoff.md", "x/hooks.json", "x/config.toml",
        "x/skills/handoff/SKILL.md",
    }  # fmt: skip


def test_a_program_that_is_not_there_is_told_before_anything_is_asked(session: Session) -> None:
    """It may still be added; nothing is said of one that is there, nor when parts are removed."""
    session.env["PATH"] = f"{session.root / 'bin'}:/usr/bin:/bin"
    program(session, "codex", "exit 0")
    said = "There is no gemini on your PATH. This can be added before it is there."

    done = session.run("install", "gemini", "codex", "--yes")
    assert done.returncode == 0
    assert said in " ".join(done.stdout.split())
    assert done.stdout.index("There is no gemini") < done.stdout.index("  + ")
    assert "no codex on your PATH" not in done.stdout
    assert "on your PATH" not in session.run("uninstall", "gemini", "--yes").stdout


def test_in_a_terminal_it_is_shown_and_asked(session: Session) -> None:
    """Which ones, then for each of them; no is no, and the screen fits 80 columns."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    terminal = Terminal(session.home, session.env)
    try:
        command = [sys.executable, "-m", "tasuki", "install"]
        pane = terminal.open(command, session.project, 80, 50)
        terminal.shows(pane, "Which (names, or all) [all]:")
        terminal.keys(pane, "codex", "Enter")
        terminal.shows(pane, "Add this? [Y/n]:")
        terminal.keys(pane, "n", "Enter")
        terminal.shows(pane, "[ended 130]")
        assert everything(session) == {}
        pane = terminal.open([*command, "codex"], session.project, 80, 50)
        terminal.shows(pane, "Add this? [Y/n]:")
        terminal.keys(pane, "Enter")
        terminal.shows(pane, "[ended 0]")
        assert "Done. Hand off inside Codex: $handoff GOAL" in terminal.capture_screen(pane).text
    finally:
        terminal.end()
    assert (session.home / ".codex" / "hooks.json").exists()
