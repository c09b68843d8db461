"""The command as a user and as a program calls it: real processes, no terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import GOAL, World, chain

from tasuki.config import settings
from tasuki.harness.pi_v3.head import build_folder_name as pi_folder
from tasuki_testing import ThreadBuilder, story


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh world."""
    return World(tmp_path)


def test_without_a_terminal_the_brief_is_printed_and_nothing_started(world: World) -> None:
    """The newest thread here gives a brief on standard output; it is kept as a draft."""
    world.thread()
    done = world.run("handoff", GOAL)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Handoff Context\n")
    assert done.stdout.endswith(f"## Next Goal (verbatim)\n{GOAL}\n")
    listed = world.run("handoffs", "--all")
    assert listed.stdout.split()[2] == "printed"
    assert "claude → claude" in listed.stdout


def test_json_is_one_versioned_document(world: World) -> None:
    """`--json` gives the brief, the record and the warnings, and nothing else on standard output."""
    world.thread()
    done = world.run("handoff", "--json", "--to", "pi", GOAL)
    document = json.loads(done.stdout)

    assert document["version"] == 1
    assert document["goal"] == GOAL
    assert document["handoff"]["to"] == "pi"
    assert document["handoff"]["predecessor"]["harness"] == "claude"
    assert document["brief"].endswith(GOAL)
    assert document["stored"] is True


def test_a_goal_file_is_taken_to_the_letter(world: World) -> None:
    """A goal of many lines comes from a file or from standard input."""
    world.thread()
    goal = "first line of the goal\n\n  indented\n- item"
    (world.project / "goal.md").write_text(goal + "\n")

    assert world.run("handoff", "--goal-file", "goal.md").stdout.endswith(f"(verbatim)\n{goal}\n")
    assert world.run("handoff", "--goal-file", "-", stdin=goal).stdout.endswith(
        f"(verbatim)\n{goal}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("handoff", "continue"), 3, "Be specific: what should the next thread accomplish?"),
        (("handoff",), 3, "A handoff needs a goal."),
        (("handoff", "--budget", "5", GOAL), 2, "at least 300"),
        (("handoff", "--to", "emacs", GOAL), 2, "Unknown harness 'emacs'"),
        (("handoff", "--to", "", GOAL), 2, "--to is empty. Name a harness, or leave --to out."),
        (("start", "abcd", "--to", " "), 2, "--to is empty."),
        (("handoff", "--from", "/nowhere.jsonl", GOAL), 1, "No file /nowhere.jsonl"),
        (("handoff", "--from", "@9", GOAL), 1, "only 1 thread"),
        (("handoff", "--goal-file", "/nowhere"), 2, "Cannot read the goal from /nowhere"),
        (("handoff", "--goal-file", "/nowhere", "x"), 2, "not both"),
        (("handoff", "add", "retries"), 2, 'Put the goal in quotes: tasuki handoff "add retries …"'),
        (("handoff", "--nonsense"), 2, "No such option"),
        (("hand",), 2, "Did you mean: tasuki handoff?"),
        (("show", "zzzz"), 1, "is not a handoff id"),
        (("show", "abcd"), 1, "No handoff abcd"),
        (("read", "abcd"), 1, "Neither a handoff nor a thread has the id abcd"),
        (("read", "@1#3-x"), 1, "neither a file, a thread id"),
        (("read", "@1#9-3"), 2, "runs backwards"),
        (("read", "@1#1", "why?"), 2, "Name entries or ask a question"),
        (("find", "harness:nobody", "-x"), 2, "Unknown harness"),
        (("find", "after:yesterday"), 2, "after:yesterday is not a date"),
        (("find", "x", "--limt", "3"), 2, "No such option '--limt'"),
        (("handoffs", "prune"), 2, "Choose: --older-than"),
        (("read", "@1#999"), 1, "There is no entry #999"),
        (("threads", "--harness", "vim"), 2, "Unknown harness 'vim'"),
    ],
)  # fmt: skip
def test_wrong_calls_say_what_to_do_and_exit_as_documented(
    world: World, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Each mistake has its message on standard error, its exit code, and no traceback."""
    world.thread()
    done = world.run(*arguments)

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_force_hands_off_with_a_vague_goal(world: World) -> None:
    """`--force` overrides the goal rules."""
    world.thread()
    done = world.run("handoff", "--force", "continue")

    assert done.returncode == 0
    assert done.stdout.endswith("(verbatim)\ncontinue\n")


def test_a_secret_in_the_goal_needs_a_confirmation(world: World) -> None:
    """The goal is never altered, so a secret in it stops a program unless it insists."""
    world.thread()
    goal = "push with the token " + "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"

    refused = world.run("handoff", goal)
    assert refused.returncode == 3
    assert "seems to contain a secret (github" in refused.stderr
    assert goal.split()[-1] not in refused.stderr
    assert world.run("handoff", "--force", goal).stdout.endswith(goal + "\n")


def test_references_can_be_opened_from_the_handoff(world: World) -> None:
    """`tasuki read ID#n` shows the entry from the thread, and from the handoff once that is gone."""
    path = world.thread()
    handoff = json.loads(world.run("handoff", "--json", GOAL).stdout)["handoff"]
    ref = handoff["citations"][0]["ref"]

    shown = world.run("read", f"{handoff['id'][:8]}#{ref}")
    assert shown.returncode == 0, shown.stderr
    assert f"── #{ref} " in shown.stdout
    path.unlink()
    kept = world.run("read", f"{handoff['id'][:8]}#{ref}")
    assert "(as stored with the handoff)" in kept.stdout
    assert kept.stdout.partition("\n")[2].strip() in shown.stdout


def test_lineage_draws_a_chain_of_handoffs(world: World) -> None:
    """A thread that began with a brief hangs under the handoff it came from."""
    world.thread()
    first = json.loads(world.run("handoff", "--json", GOAL).stdout)
    second = (
        ThreadBuilder("claude", cwd=str(world.project), seed=7)
        .user(first["brief"])
        .assistant("Done with the retries.")
    )
    path = world.thread(second)
    next_goal = "document the retries in the README"
    document = json.loads(world.run("handoff", "--json", "--from", str(path), next_goal).stdout)

    assert document["handoff"]["parent"] == first["id"]
    assert "Goal then: " + GOAL in document["brief"]
    drawn = world.run("lineage", document["id"][:8]).stdout
    assert drawn.index(first["id"][:8]) < drawn.index(document["id"][:8])


def test_show_names_the_successor_and_how_to_open_it(world: World) -> None:
    """The thread that began with the handoff, with its program; lineage finds both by that thread."""
    first, second, _ = chain(world)
    thread = json.loads(world.run("show", first, "--json").stdout)["successor"]
    shown = world.run("show", first).stderr

    assert thread["harness"] == "claude"
    command = f"cd {world.project} && claude --resume {thread['id']}"
    assert f"Successor: Claude Code {thread['id']}. Open it: {command}" in shown
    assert "Successor" not in world.run("show", second).stderr
    assert json.loads(world.run("show", second, "--json").stdout)["successor"] is None
    drawn = world.run("lineage", thread["id"]).stdout
    assert first[:8] in drawn
    assert second[:8] in drawn
    assert world.run("lineage", "12345678").returncode == 1


def test_broken_lines_and_truncation_are_reported_and_lose_nothing_else(world: World) -> None:
    """A damaged thread still gives a brief, and says which lines were skipped."""
    path = world.thread()
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(3, b'{"type":"assistant", broken\n')
    path.write_bytes(b"".join(lines) + b'{"type":"user","uuid":"x","mess')
    done = world.run("handoff", GOAL)

    assert done.returncode == 0
    assert f"1 broken line(s) skipped in {path}: 4" in done.stderr
    assert "The last line of the thread is incomplete" in done.stderr


def test_a_brief_is_printed_even_when_it_cannot_be_kept(world: World) -> None:
    """A full or unwritable store is a warning when the brief is on its way out anyway."""
    world.thread()
    world.data.write_text("a file where a folder should be")
    done = world.run("handoff", "--print", GOAL)

    assert done.returncode == 0
    assert done.stdout.endswith(GOAL + "\n")
    assert "The brief is complete, but was not stored" in done.stderr
    document = json.loads(world.run("handoff", "--json", GOAL).stdout)
    assert (document["stored"], document["id"], document["handoff"]["id"]) == (False, "", "")
    assert "The brief is complete, but was not stored" in document["warnings"][-1]


def test_threads_lists_this_folder_and_json_is_versioned(world: World) -> None:
    """A table for people, a document for programs; an empty folder says where to look."""
    assert "Threads of other folders: tasuki threads --all" in world.run("threads").stderr
    world.thread()

    table = world.run("threads").stdout
    assert "@1" in table
    assert "claude" in table
    document = json.loads(world.run("threads", "--all", "--json").stdout)
    assert document["version"] == 1
    assert document["threads"][0]["harness"] == "claude"


def test_a_closed_pipe_is_no_traceback(world: World) -> None:
    """`tasuki handoff … | head -1` ends quietly."""
    world.thread()
    done = subprocess.run(
        f"{sys.executable} -m tasuki handoff '{GOAL}' | head -1",
        shell=True, cwd=world.project, env=world.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == "# Handoff Context\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


ASK_EACH_FOR_HELP = """
import click
from click.testing import CliRunner
from tasuki.cli.main import COMMANDS, cli
with click.Context(cli) as context:
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
names = [(name, *sub) for name, command in commands.items()
         for sub in ((), *((sub,) for sub in getattr(command, "commands", ())))]
for name in names:
    shown = CliRunner().invoke(cli, [*name, "-h"], standalone_mode=False).output
    print("helped" if shown.startswith("Usage:") else f"refused: {name}")
"""


def test_every_command_answers_h(world: World) -> None:
    """`-h` is `--help` for each command and each of a group, also where a dash excludes words."""
    done = subprocess.run(
        (sys.executable, "-c", ASK_EACH_FOR_HELP), env=world.env, capture_output=True, text=True, check=True
    )  # fmt: skip

    assert done.stdout.count("helped") > 60
    assert "refused" not in done.stdout


@pytest.mark.parametrize(
    "command", [("find", "xylophone"), ("handoffs", "find", "xylophone"), ("read", "@1", "xylophone")]
)  # fmt: skip
def test_json_exits_as_text_does_where_nothing_is_found(
    world: World, command: tuple[str, ...]
) -> None:
    """The document is empty, and the exit code 1."""
    world.thread()
    plain, document = world.run(*command), world.run(*command, "--json")

    assert (plain.returncode, document.returncode) == (1, 1)
    assert json.loads(document.stdout)["version"] == 1


def test_the_default_of_the_budget_is_the_setting(world: World) -> None:
    """And the help says so."""
    world.thread()
    tight, wide = (
        json.loads(world.run("handoff", "--json", GOAL, TASUKI_BUDGET=budget).stdout)["tokens"]
        for budget in ("300", "4000")
    )

    assert tight < wide
    assert "[default: from the setting `budget`]" in world.run("handoff", "-h").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(world: World, shell: str) -> None:
    """Each shell gets its script."""
    assert "_TASUKI_COMPLETE" in world.run("completion", shell).stdout


@pytest.mark.parametrize(
    ("harness", "folder", "first"),
    [("pi", ".pi/agent/skills", "/skill:evals"), ("claude", ".claude/skills", "/evals"), ("codex", ".codex/skills", "$evals")],
)  # fmt: skip
def test_the_last_skill_is_inherited_where_the_successor_has_it(
    world: World, harness: str, folder: str, first: str
) -> None:
    """The skill stands first in the successor's own syntax; where it is not installed it is metadata."""
    builder = (
        ThreadBuilder("pi", cwd=str(world.project))
        .user("/skill:evals run the judge")
        .assistant("Judged.")
    )
    path = builder.write(world.home / "thread.jsonl")

    without = world.run("handoff", "--from", str(path), "--to", harness, GOAL).stdout
    assert without.startswith("# Handoff Context\n")
    assert "- Prior skill: /skill:evals\n" in without
    skill = world.home / folder / "evals" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("# Evals\n")
    done = world.run("handoff", "--from", str(path), "--to", harness, GOAL)
    assert done.stdout.startswith(f"{first}\n# Handoff Context\n")
    assert world.run(
        "handoff", "--from", str(path), "--to", harness, GOAL, TASUKI_INCLUDE_SKILL="false"
    ).stdout.startswith("# Handoff Context\n")


def test_an_author_that_needs_a_model_says_so(world: World) -> None:
    """Without a usable model there is a message and a way on, not a silent other author."""
    world.thread()
    done = world.run("handoff", GOAL, TASUKI_AUTHOR="model")

    assert done.returncode == 1
    assert done.stderr.startswith("tasuki: No model selected.")
    assert "--author offline" in done.stderr
    assert world.run("handoff", "--author", "offline", GOAL, TASUKI_AUTHOR="model").returncode == 0


def test_a_brief_that_is_not_kept_names_the_thread_itself(world: World) -> None:
    """Where no handoff can be kept, the references of the brief open the thread."""
    path = world.thread()
    world.data.write_text("a file where a folder should be")
    done = world.run("handoff", "--print", GOAL)
    world.data.unlink()
    named = done.stdout.split("open one with `tasuki read ")[1].split("#n`")[0]
    opened = world.run("read", f"{named}#1")

    assert named == str(path)
    assert opened.returncode == 0, opened.stderr
    assert "── #1 user" in opened.stdout


def test_a_thread_named_by_a_relative_path_is_opened_from_anywhere(world: World) -> None:
    """What a handoff keeps of its thread is an absolute path."""
    path = world.thread()
    name = os.path.relpath(path, world.project)
    kept = json.loads(world.run("handoff", "--json", "--from", name, GOAL).stdout)
    world.project = world.home
    opened = world.run("read", f"{kept['id'][:8]}#2")

    assert kept["handoff"]["predecessor"]["path"] == str(path)
    assert opened.returncode == 0, opened.stderr
    assert "as stored" not in opened.stdout


def test_threads_that_cannot_be_read_are_told(world: World) -> None:
    """A folder of threads that is there and cannot be read is named, and the exit code says so."""
    folder = world.home / ".claude"
    folder.mkdir()
    (folder / "projects").symlink_to("projects")  # a circle; root may read everything else

    for arguments in (("threads", "--all"), ("threads",), ("threads", "--json")):
        done = world.run(*arguments)
        assert done.returncode == 1
        assert f"{folder / 'projects'} cannot be read: " in done.stderr
    for arguments in (("handoff", "--print", GOAL), ("find", "retry")):
        assert f"{folder / 'projects'} cannot be read: " in world.run(*arguments).stderr


def test_a_subfolder_lists_and_hands_off_the_threads_of_its_project(world: World) -> None:
    """From a folder below the project's, the project's threads are listed and handed off, and that is said."""
    world.thread()
    (world.project / ".git").mkdir()
    world.project = world.project / "src"
    world.project.mkdir()
    listed, done = world.run("threads"), world.run("handoff", "--print", GOAL)

    assert "@1" in listed.stdout
    for said in (listed, done):
        assert said.returncode == 0
        assert f"No thread was run in {world.project}" in said.stderr
    assert done.stdout.endswith(GOAL + "\n")


def test_sessions_of_tasuki_itself_are_threads(world: World) -> None:
    """A session that `tasuki chat` or `tasuki acp` keeps is listed, found, read and handed off."""
    folder = world.data / "sessions" / pi_folder(str(world.project))
    folder.mkdir(parents=True)
    path = story("pi", cwd=str(world.project)).write(folder)
    listed = json.loads(world.run("threads", "--json").stdout)["threads"]
    found = world.run("find", "harness:tasuki")
    brief = world.run("handoff", "--print", GOAL)
    elsewhere = world.run("threads", "--json", TASUKI_DATA=str(world.data / "other"))

    assert [(t["harness"], t["path"]) for t in listed] == [("tasuki", str(path))]
    assert "tasuki" in found.stdout, found.stderr
    assert brief.stdout.endswith(GOAL + "\n")
    assert "Thread: tasuki" in brief.stdout
    assert json.loads(elsewhere.stdout)["threads"] == []


@pytest.mark.parametrize("way", ["--print", "--json", "--copy"])
def test_a_harness_that_starts_nothing_is_no_successor(world: World, way: str) -> None:
    """Naming aider as the successor is refused, also where the brief is only shown."""
    world.thread()
    done = world.run("handoff", way, "--to", "aider", GOAL)

    assert done.returncode == 2
    assert done.stdout == ""
    assert "no successor can be started there" in done.stderr


def test_what_was_only_printed_is_kept_and_not_listed(world: World) -> None:
    """A printed brief opens by its id, stands in no list, and is a draft again for nobody who did not ask."""
    world.thread()
    for _ in range(3):
        world.run("handoff", "--print", GOAL)
    id = json.loads(world.run("handoff", "--json", GOAL).stdout)["id"][:8]
    listed, every = world.run("handoffs"), world.run("handoffs", "--all")
    drawn = world.run("lineage")
    pruned = world.run("handoffs", "prune", "--drafts", "--dry-run")

    assert [line.split()[0] for line in listed.stdout.splitlines()] == [id]
    assert sorted(line.split()[2] for line in every.stdout.splitlines()) == [
        "draft",
        *["printed"] * 3,
    ]
    assert len(drawn.stdout.splitlines()) == 1
    assert "4 would be deleted" in pruned.stderr
    for line in every.stdout.splitlines():
        assert world.run("read", f"{line.split()[0]}#1").returncode == 0


def test_handoffs_that_cannot_be_read_are_set_aside_whole(world: World) -> None:
    """A broken record blocks nothing for ever: it is set aside with all it holds, and no list warns any more."""
    world.thread()
    ids = [json.loads(world.run("handoff", "--json", GOAL).stdout)["id"] for _ in range(2)]
    broken = world.data / "handoffs" / ids[0]
    (broken / "handoff.json").write_text("{")
    brief = (broken / "brief.md").read_text()
    blocked = world.run("handoffs", "prune", "--drafts", "--yes")
    looked = world.run("handoffs", "prune", "--unreadable", "--dry-run")
    still = broken.exists()
    done = world.run("handoffs", "prune", "--unreadable")

    assert blocked.returncode == 1
    assert "tasuki handoffs prune --unreadable" in blocked.stderr
    assert looked.stdout.split()[0] == ids[0][:8]
    assert still
    assert done.returncode == 0, done.stderr
    assert (world.data / "handoffs" / "unreadable" / ids[0] / "brief.md").read_text() == brief
    assert world.run("handoffs").stderr == ""
    assert "Deleted 1." in world.run("handoffs", "prune", "--drafts", "--yes").stderr


def test_errors_say_what_they_are_about(world: World) -> None:
    """A full standard output is told as that; a setting is named as it was given."""
    world.thread()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            (sys.executable, "-m", "tasuki", "threads"), cwd=world.project, env=world.env,
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    flag = world.run("handoff", "--budget", "12", GOAL)
    variable = world.run("handoff", GOAL, TASUKI_BUDGET="12")

    assert done.stderr == "tasuki: The output could not be written: the disk is full.\n"
    assert "--budget must be at least 300 tokens; it is 12." in flag.stderr
    assert "TASUKI_BUDGET must be at least 300 tokens; it is 12." in variable.stderr


def test_a_settings_file_that_is_named_and_missing_is_told(world: World) -> None:
    """`TASUKI_CONFIG` of a file that is not there is a warning, not silence."""
    world.thread()
    done = world.run("handoff", "--print", GOAL, TASUKI_CONFIG="/nowhere/config.toml")

    assert done.returncode == 0
    assert "TASUKI_CONFIG names /nowhere/config.toml, which does not exist" in done.stderr
    asked = world.run("read", "@1", "why retry", TASUKI_CONFIG="/nowhere/config.toml")
    assert "TASUKI_CONFIG names /nowhere/config.toml, which does not exist" in asked.stderr


def test_a_defect_is_one_sentence_and_a_file(world: World) -> None:
    """What nobody foresaw ends without a traceback on the screen; it is kept, without secrets, for a report."""
    code = "import tasuki.threads.catalog as c; token = 'ghp_' + 'a1B2' * 9\ndef fail(*a): raise KeyError(token)\nc.list_heads_near = fail\nfrom tasuki.cli.main import main\nimport sys; sys.argv = ['tasuki', 'threads']\nmain()"
    done = subprocess.run(
        (sys.executable, "-c", code), cwd=world.project, env=world.env, capture_output=True, text=True, check=False
    )  # fmt: skip
    (kept,) = (world.data / "defects").iterdir()

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "This is a defect of tasuki: KeyError" in done.stderr
    assert str(kept) in done.stderr
    assert "Traceback" in kept.read_text()
    assert "ghp_a1B2a1B2" not in kept.read_text() + done.stderr
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("find x", "Interrupted."),
        ("doctor", "Interrupted."),
        ("mcp", "Interrupted."),
        ("handoff x", "Interrupted; nothing was started."),
        ("handoffs prune -y", "Interrupted. What was deleted until then is gone."),
        ("install pi -y", "Interrupted. What was written until then stays; tasuki uninstall removes it."),
    ],
)  # fmt: skip
def test_ctrl_c_says_what_is_true_of_the_command(world: World, command: str, said: str) -> None:
    """Only a handoff starts anything; what is deleted or written piece by piece is told as that."""
    done = _failing(world, command, "KeyboardInterrupt")

    assert (done.returncode, done.stderr.strip()) == (130, said)


@pytest.mark.parametrize("module", ["tasuki.cli", "click", "tasuki.text_safety"])
@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_while_the_program_loads_is_no_traceback(
    world: World, module: str, ignored: bool
) -> None:
    """It ends as a program in C does, which a shell shows as 130; where it is ignored it stays so."""
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *more):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt()); sys.argv = ['tasuki', '--version']\n"
        f"if {ignored}: signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tasuki.__main__ import main; main()"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), cwd=world.project, env=world.env, capture_output=True, text=True, check=False
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0 if ignored else -signal.SIGINT, "")
    assert bool(done.stdout) is ignored


@pytest.mark.parametrize(("command", "fears"), [("read x", True), ("serve", False), ("install pi", False)])  # fmt: skip
def test_a_defect_speaks_of_threads_where_they_are_concerned(
    world: World, command: str, fears: bool
) -> None:
    """A server and an installation have nothing to do with them."""
    done = _failing(world, command, "KeyError('x')")

    assert "This is a defect of tasuki: KeyError" in done.stderr
    assert ("Threads are never written to." in done.stderr) is fears


def _failing(world: World, command: str, error: str) -> subprocess.CompletedProcess[str]:
    """A command in which something is raised as soon as it is called."""
    code = (
        "import sys, click, tasuki.cli.main as m\n"
        f"def fail(*a, **k): raise {error}\n"
        f"click.Context.invoke = fail; sys.argv = ['tasuki', *{command.split()}]; m.main()"
    )
    return subprocess.run(
        (sys.executable, "-c", code), cwd=world.project, env=world.env, capture_output=True, text=True, check=False
    )  # fmt: skip


COMMANDS_OF_DATA = ("handoffs", "lineage", "show abcd", "find retries")


@pytest.mark.parametrize(
    "command", [*COMMANDS_OF_DATA, "threads", "doctor", "status claude", "serve --port 0"]
)
def test_a_data_folder_of_no_user_is_told(world: World, command: str) -> None:
    """`~NAME` of nobody is a sentence that names the variable, once, and no traceback."""
    done = world.run(*command.split(), TASUKI_DATA="~nosuch/x")

    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "tasuki: TASUKI_DATA=~nosuch/x names the home folder of nosuch, who is not a user here. "
        "Give the absolute path, or ./~nosuch/x.\n"
    )


@pytest.mark.parametrize("arguments", [
    ("read", "~nosuch/x"), ("handoff", "--from", "~nosuch/x", GOAL), ("check", "brief.md", "--thread", "~nosuch/x"),
])  # fmt: skip
def test_a_path_of_no_user_is_wrong_usage(world: World, arguments: tuple[str, ...]) -> None:
    """It is named as it was typed, with what to give instead."""
    (world.project / "brief.md").write_text("# Next Goal\n")
    done = world.run(*arguments)

    assert done.returncode == 2
    assert "~nosuch/x names the home folder of nosuch, who is not a user here." in done.stderr


@pytest.mark.parametrize(
    "command", ["threads --all", "doctor", "handoff --print GOAL", "install claude -y", "find x"]
)
def test_a_home_folder_that_nobody_knows_is_told(world: World, command: str) -> None:
    """`HOME` that is not an absolute path is a sentence with what to set."""
    done = world.run(*command.split(), HOME="~nosuch")

    assert done.returncode == 1
    assert (
        "Your home folder is not known (HOME=~nosuch is not an absolute path). Set HOME"
        in done.stderr
    )
    assert "defect" not in done.stderr


@pytest.mark.parametrize("command", ["handoffs", "threads", "status claude"])
def test_a_user_whom_the_system_does_not_know_is_told(world: World, command: str) -> None:
    """Without `HOME` and without an entry of the user there is a sentence and no traceback."""
    code = f"import pwd, sys; pwd.getpwuid = {{}}.__getitem__; sys.argv = ['tasuki', *{command.split()}]; from tasuki.cli.main import main; main()"
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(
        (sys.executable, "-c", code), cwd="/", env=env, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr == (
        f"tasuki: Your home folder is not known (no HOME, and no user {os.getuid()}). "
        "Set HOME to its absolute path.\n"
    )


@pytest.mark.parametrize("command", [*COMMANDS_OF_DATA, "serve --port 0"])
@pytest.mark.parametrize("kind", ["file", "below a file", "circle", "link to nothing"])
def test_a_data_folder_that_is_none_is_told(world: World, command: str, kind: str) -> None:
    """What is wrong with it is said, and that TASUKI_DATA names it; it is not taken for an empty one."""
    place = world.project / "place"
    data, reason = {
        "file": (place, "it is a file"), "below a file": (place / "data", f"{place} is a file"),
        "circle": (place, "its links form a loop"), "link to nothing": (place, "it is a link to nothing"),
    }[kind]  # fmt: skip
    if "file" in kind:
        place.write_text("")
    else:
        place.symlink_to(place.name if kind == "circle" else "nothing")
    done = world.run(*command.split(), TASUKI_DATA=str(data))

    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"The data folder {data}, which TASUKI_DATA names, cannot be used: {reason}." in done.stderr
    )


@pytest.mark.parametrize(
    "command", ["install claude -y", "install claude --fleet -y", "serve --port 0"]
)
def test_a_data_folder_that_is_no_text_is_refused_where_it_is_written_down(
    world: World, command: str
) -> None:
    """A settings file and a database can hold no name that is not UTF-8."""
    done = world.run(*command.split(), TASUKI_DATA=f"{world.data}\udcff")

    assert done.returncode == 1
    assert "is not UTF-8" in done.stderr
    assert "Choose another: TASUKI_DATA=/some/folder" in done.stderr
    assert not (world.home / ".claude").exists()


def test_a_relative_data_folder_is_written_down_whole(world: World) -> None:
    """Hooks and tools run in other folders: what names tasuki's folders there is absolute."""
    (world.project / "rel.toml").write_text("")
    done = world.run(
        "install", "claude", "--fleet", "-y", TASUKI_DATA="rel/data", TASUKI_CONFIG="rel.toml"
    )
    written = "".join(path.read_text() for path in world.home.rglob("*") if path.is_file())

    assert done.returncode == 0, done.stderr
    assert f"{world.project}/rel/data" in written
    assert not re.search(r"""(?<![\w/])rel(/data|\.toml)""", written)


def test_a_relative_folder_of_the_fleet_is_absolute(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fleet_root` and `TASUKI_CONFIG` are taken from the folder that tasuki runs in, `~` as the home folder."""
    monkeypatch.chdir(world.project)
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.setenv("TASUKI_CONFIG", "~/own.toml")

    assert settings.find_user_file() == world.home / "own.toml"
    assert (
        settings.find_fleet_root(settings.Settings(fleet_root="team"), world.data)
        == world.project / "team"
    )
    assert (
        settings.find_fleet_root(settings.Settings(fleet_root="~/team"), world.data)
        == world.home / "team"
    )
    assert settings.find_fleet_root(settings.Settings(), world.data) == world.data


def test_progress_is_lines_for_a_program_that_shows_it(world: World) -> None:
    """With `TASUKI_PROGRESS=lines` every phase is a line of its own on standard error."""
    world.thread()
    done = world.run("handoff", "--json", GOAL, TASUKI_PROGRESS="lines")
    told = [line for line in done.stderr.splitlines() if line.startswith("progress: ")]

    assert told == [
        "progress: Analyzing conversation...",
        "progress: Extracting relevant context...",
        "progress: Assembling handoff prompt...",
    ]
