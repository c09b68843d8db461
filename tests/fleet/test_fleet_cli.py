"""The fleet's commands: what they print, what they refuse, and their exit codes."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
from fleet_desk import Desk
from web_servers import serving

from tasuki.web.security import single_server

HOSTILE = "evil\x1b]0;title\x07\x1b[2J\n\u202emoc"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A server of the test's own."""
    with (
        serving(tmp_path) as served,
        single_server.publish_address(tmp_path / "fleet", served.host),
    ):
        yield Desk(tmp_path, served)


# -- personas --------------------------------------------------------------------------


def test_a_persona_from_first_to_last(desk: Desk) -> None:
    """Added with a skill from a file or standard input, listed, shown, changed, retired."""
    (desk.folder / "skill.md").write_text("You write tests.\n")

    assert "developer-con-1\n" == desk.out(
        "persona", "add", "developer", "con", "--skill", "skill.md"
    )
    added = desk.out(
        "persona",
        "add",
        "tester",
        "ann",
        "--skill",
        "-",
        "--threshold",
        "70",
        "--automatic",
        "--json",
        text="You test.",
    )
    assert (1, "tester-ann-1") == (lambda told: (told["version"], told["persona"]["slug"]))(
        json.loads(added)
    )
    assert [
        "persona          harness  threshold",
        "developer-con-1  claude",
        "tester-ann-1     claude        70 %  automatic",
    ] == desk.out("persona", "list").splitlines()
    shown = desk.out("persona", "show", "developer-con-1")
    assert "threshold  as the settings say\n" in shown
    assert shown.endswith("\n\nYou write tests.\n")
    assert "tester-ann-1 was changed.\n" == desk.out(
        "persona", "edit", "tester-ann-1", "--manual", "--default-threshold", "--model", "m"
    )
    got = json.loads(desk.out("persona", "show", "tester-ann-1", "--json"))["persona"]
    assert (False, None, "m", "You test.") == (
        got["automatic"],
        got["threshold"],
        got["model"],
        got["skill"],
    )
    assert "is retired. Its folder stays" in desk.out("persona", "retire", "tester-ann-1")
    assert "tester" not in desk.out("persona", "list")
    assert "retired" in desk.out("persona", "list", "--all")


def test_personas_that_cannot_be(desk: Desk) -> None:
    """A sentence and an exit code for each."""
    cases = [
        (("add", "../x", "con"), 1, "cannot be a persona's role"),
        (("add", "developer", "con", "--harness", "nope"), 2, "Unknown harness 'nope'"),
        (("add", "developer", "con", "--skill", "none.md"), 1, "No such file"),
        (("add", "developer", "con", "--threshold", "0"), 2, "Invalid value"),
        (("show", "developer-nobody-1"), 1, "No persona 'developer-nobody-1'"),
        (("show", "../../etc"), 1, "Nothing exists at"),
        (("edit", "developer-con-1"), 2, "Say what to change"),
        (("retire", "x"), 1, "No persona"),
    ]
    for arguments, code, words in cases:
        got, out, error = desk.run("persona", *arguments)
        assert (code, "") == (got, out), arguments
        assert words in error


# -- agents ----------------------------------------------------------------------------


def test_agents_are_listed_and_shown(desk: Desk) -> None:
    """Those that run; an empty column is left out, and what is not known is not shown."""
    slug = desk.persona()
    now = time.time()
    records.agent(
        desk.database,
        persona=slug,
        pane="%3",
        window="tasuki:1",
        state_at=now - 200,
        context_used=42.4,
        cwd="/srv",
    )
    records.agent(desk.database, ended_at=now, state="ended", state_at=now, pane="%9")

    assert [
        "id  state  since  persona          harness  context  pane  folder",
        " 1  idle      3m  developer-con-1  claude      42 %  %3    /srv",
    ] == desk.out("agent", "list").splitlines()
    assert [" 2", " 1"] == [
        line[:2] for line in desk.out("agent", "list", "--all").splitlines()[1:]
    ]
    assert "%9" not in desk.out("agent", "list", "--all")
    assert [1] == [
        a["id"]
        for a in json.loads(desk.out("agent", "list", "--json", "--persona", slug))["agents"]
    ]
    shown = desk.out("agent", "show", "1")
    assert "pane         %3 in tasuki:1\n" in shown
    assert "thread" not in shown
    assert 1 == json.loads(desk.out("agent", "show", "1", "--json"))["agent"]["id"]


def test_hostile_words_move_no_cursor(desk: Desk) -> None:
    """What agents and threads say is shown without control characters, on one line."""
    slug = desk.persona()
    id = records.agent(desk.database, persona=slug, cwd=HOSTILE, goal=HOSTILE, waiting_for=HOSTILE, state="waiting",
                       children=[HOSTILE], window=HOSTILE, pane="%1", model=HOSTILE, harness=HOSTILE)  # fmt: skip
    failure = {"code": "c", "step": "instruct", "sentence": HOSTILE, "remedy": HOSTILE}
    records.handoff(
        desk.database, "ab" * 16, id, persona=slug, reason=HOSTILE, state="failed", failure=failure
    )

    for arguments in (("agent", "list"), ("agent", "show", str(id)), ("handoffs", "--agents")):
        said = desk.out(*arguments)
        assert "evil moc" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_what_cannot_be_done_is_a_sentence(desk: Desk) -> None:
    """With the exit code 1."""
    slug = desk.persona()
    ended = str(records.agent(desk.database, persona=slug, ended_at=1.0, state="ended", pane="%1"))
    alone = str(records.agent(desk.database, pane="%1"))
    cases = [
        (("show", "99"), "No agent 99. List them"),
        (("send", ended, "hello"), "Agent is not active"),
        (("attach", ended), f"Agent {ended} has ended."),
        (("handoff", ended, "--reason", "r"), "Agent is not active"),
        (("handoff", alone, "--reason", "r"), "Agent has no persona"),
        (("adopt", "x; kill-server"), "is not a tmux pane"),
        (("start", "--persona", "developer-nobody-1"), "No persona 'developer-nobody-1'"),
        (("start", "--harness", "claude", "--cwd", "/no/such"), "There is no folder /no/such"),
        (("retry", "abcd"), "No handoff of an agent begins with 'abcd'"),
        (("cancel", "zz"), "is not the id of a handoff"),
    ]
    for arguments, words in cases:
        got, out, error = desk.run("agent", *arguments)
        assert (1, "") == (got, out), arguments
        assert words in error


@pytest.mark.parametrize(
    ("values", "words"),
    [({"state": "compacting"}, "compacts its context. Wait for that, or use --force."),
     ({"children": ["explore", "npm test"]}, "2 sub-agents or background commands of agent 1 still run: explore; npm test. Wait for them, or use --force.")],
)  # fmt: skip
def test_d15_what_runs_is_not_cut_off(desk: Desk, values: dict[str, Any], words: str) -> None:
    """D15: exit code 3 while sub-agents, background commands or a compaction run; nothing is begun."""
    records.agent(desk.database, persona=desk.persona(), pane="%1", **values)

    code, _, error = desk.run("agent", "handoff", "1", "--reason", "r")

    assert (3, True) == (code, words in error)
    assert "No handoffs of agents yet" in desk.run("handoffs", "--agents")[2]


def test_d15_force_and_a_thread_do_not_wait(desk: Desk) -> None:
    """What is asked for with --force, or from the thread, goes to the server."""
    records.agent(desk.database, persona=desk.persona(), children=["x"], state="compacting")

    assert (
        "Agent has no tmux pane" in desk.run("agent", "handoff", "1", "--reason", "r", "--force")[2]
    )
    assert 3 != desk.run("agent", "handoff", "1", "--reason", "r", "--from-thread")[0]


# -- handoffs --------------------------------------------------------------------------


def test_handoffs_are_listed_with_their_failures(desk: Desk) -> None:
    """The newest first; under a failed one, why and what to do."""
    slug = desk.persona()
    first, second, third = (records.agent(desk.database, persona=slug) for _ in range(3))
    failure = {
        "code": "c",
        "step": "check",
        "sentence": "There is no document.",
        "remedy": "Ask the agent.",
    }
    records.handoff(desk.database, "a" * 32, first, persona=slug, state="done", step="done", successor_id=third,
                    created_at=time.time() - 7200)  # fmt: skip
    records.handoff(
        desk.database, "b" * 32, second, persona=slug, state="failed", step="check", failure=failure
    )

    lines = re.sub(r"  \ds ", "  0s ", desk.out("handoffs", "--agents")).splitlines()
    assert [
        "id        age  state   step   agent  persona          reason",
        "bbbbbbbb   0s  failed  check  2      developer-con-1  r",
        "    There is no document.",
        "    Ask the agent.",
        "aaaaaaaa   2h  done    done   1 → 3  developer-con-1  r",
    ] == lines
    assert 2 == len(json.loads(desk.out("handoffs", "--agents", "--json"))["handoffs"])


def test_orders_to_a_handoff(desk: Desk) -> None:
    """By the beginning of its id."""
    slug = desk.persona()
    for number, letter in enumerate("abc", 1):
        id = records.agent(desk.database, persona=slug, state="ended", ended_at=1.0)
        step = "acknowledge" if letter == "c" else "check"
        records.handoff(desk.database, letter * 32, id, persona=slug, state="failed", step=step)
        assert number == id

    assert "Handoff aaaaaaaa is cancelled, at check.\n" == desk.out("agent", "cancel", "aaaa")
    assert "Handoff bbbbbbbb is done.\n" == desk.out("agent", "finish", "bbbbb")
    assert "Handoff cccccccc is done, without acknowledgement.\n" == desk.out(
        "agent", "skip", "cccc"
    )
    assert (1, True) == (lambda got: (got[0], "only a failed one can be retried" in got[2]))(
        desk.run("agent", "retry", "cccc")
    )


# -- the server ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("persona", "list"),
        ("agent", "list"),
        ("handoffs", "--agents"),
        ("agent", "handoff", "1", "--reason", "r"),
    ],
)
def test_without_a_server_it_says_how_to_start_one(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """No address, a stale one, and something else that answers there."""
    desk = Desk.__new__(Desk)
    desk.folder = tmp_path
    desk.env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TASUKI_DATA": str(tmp_path),
        "LANG": "C.UTF-8",
    }
    fleet = tmp_path / "fleet"

    code, _, error = desk.run(*command)
    assert (1, True) == (code, error.endswith("Start one: tasuki serve\n"))
    fleet.mkdir()
    (fleet / "token").write_text("x")
    for address, words in (("127.0.0.1:1", "No server answers at http://127.0.0.1:1. Start one: tasuki serve"),
                           ("nonsense\x1b[2J", "holds no address")):  # fmt: skip
        (fleet / "address").write_text(address)
        code, _, error = desk.run(*command)
        assert (1, True) == (code, words in error)


def test_a_token_of_other_data_is_told(desk: Desk) -> None:
    """What the server does not know."""
    (desk.folder / "fleet" / "token").write_text("something-else-entirely")

    code, _, error = desk.run("agent", "list")
    assert (1, True) == (code, "The server does not know this token" in error)


def test_a_proxy_is_not_asked(desk: Desk) -> None:
    """The server is on this machine, whatever the environment says."""
    desk.env |= {
        "http_proxy": "http://127.0.0.1:1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
    }

    assert "No agents." in desk.run("agent", "list")[2]


def test_the_commands_load_nothing_of_the_server(desk: Desk) -> None:
    """They speak HTTP with the standard library: no command waits for what only the server needs."""
    program = (
        "import sys; sys.argv = ['tasuki', 'agent', 'list']\n"
        "from tasuki.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=desk.env, capture_output=True, text=True, timeout=60
    )
    heavy = {"sqlalchemy", "litestar", "dbos", "uvicorn", "rich", "asyncio"}

    assert "tasuki.cli.fleet.agent" in done.stdout
    assert set() == heavy & set(done.stdout.split())
