"""Attempts to break the fleet: each of these must not harm the operator, another agent, or a handoff."""

import json
import os
import shlex
import signal
import subprocess
import threading
import time
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from fleets import Refused, World, refusal
from hook_servers import hook_server
from selection import by_default
from waiting import retry_until

from tasuki.fleet.agents.watch import FleetWatch
from tasuki.fleet.handoff import successor_steps
from tasuki.fleet.hooks import spool
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.install.hook_script import write_hook_script

KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""


def told(world: World, name: str, session: str, pane: str = "", socket: str = "") -> str:
    """A hook of Claude Code tells something, with no token of an agent; its answer."""
    body = {"hook_event_name": name, "session_id": session, "cwd": "/", "source": "startup"}
    request = urllib.request.Request(
        f"http://{world.address()}/api/hooks/claude", data=json.dumps(body).encode()
    )
    token = (world.data / "fleet" / "hook-token").read_text().strip()
    for header, value in {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json",
        "X-Tasuki-Event": uuid.uuid4().hex, "X-Tasuki-Pane": pane, "X-Tasuki-Socket": socket,
    }.items():  # fmt: skip
        request.add_header(header, value)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def living(world: World, slug: str) -> list[int]:
    """The agents that work as a persona."""
    return [a["id"] for a in world.api("GET", f"/api/agents?ended=false&persona={slug}")["agents"]]


def own_pane(world: World) -> str:
    """A pane with the operator's own shell."""
    world.tmux("new-session", "-d", "-s", "own", "-x", "200", "-y", "50", "sh")
    return world.tmux("list-panes", "-t", "own", "-F", "#{pane_id}").strip()


def adopted(world: World, *, heard: bool) -> tuple[int, str]:
    """An agent that the operator began in a shell, and its pane; `heard`: while the server ran."""
    slug = world.persona()
    if not heard:
        world.kill()
        (world.data / "fleet" / "address").unlink()
    pane = own_pane(world)
    world.tmux("send-keys", "-t", pane, "claude", "Enter")
    retry_until(lambda: world.seen("started"), 20)
    if not heard:
        retry_until(lambda: list((world.data / "fleet/spool").glob("*.json")), 20)
        world.serve(
            limits=json.dumps({"idle": 8, "instruct": 6, "turn": 8, "shut_down": 4, "signalled": 2})
        )
    retry_until(lambda: world.api("GET", "/api/agents")["agents"], 20)
    made = world.api(
        "POST", "/api/agents/adopt", {"pane": pane, "harness": "claude", "persona": slug}
    )
    return world.idle(made["id"]), pane


# -- what is typed goes nowhere else ---------------------------------------------------


@pytest.mark.parametrize("order", ["stop", "send"])
def test_a_nested_agent_is_never_touched(world: World, order: str) -> None:
    """An anonymous agent inside of another one has no pane of its own: nothing is typed to its parent."""
    agent = world.worked(world.started())
    pane = world.agent(agent)["pane"]
    told(world, "SessionStart", str(uuid.uuid4()), pane)
    nested = max(a["id"] for a in world.api("GET", "/api/agents")["agents"])
    with suppress(Refused):
        world.api(
            "POST",
            f"/api/agents/{nested}/{order}",
            {"text": "hello there"} if order == "send" else {},
        )

    assert nested != agent
    assert (world.seen("exit"), world.prompts("hello there")) == ([], [])


def test_an_adopted_agent_that_crashed_is_noticed(world: World) -> None:
    """The harness died and its shell is back: the agent has ended, and no text runs as commands."""
    agent, _ = adopted(world, heard=True)
    world.worked(agent)
    owned = world.folder / "owned"
    os.kill(world.agent_rows()[0]["process"], signal.SIGKILL)
    time.sleep(6)  # several looks
    with suppress(Refused):
        id = world.hand_off(agent, reason=f"full\ntouch {owned}\n")
        retry_until(lambda: world.handoff(id)["state"] != "running", 40)

    assert (owned.exists(), world.agent(agent)["state"] in ("lost", "ended")) == (False, True)


def test_the_shell_of_an_adopted_agent_is_not_killed(world: World) -> None:
    """An agent whose start was heard from the spool is handed off: its shell stays."""
    agent, _ = adopted(world, heard=False)
    world.worked(agent)
    before = world.tmux("list-panes", "-t", "own", "-F", "#{pane_pid}").strip()
    id = world.hand_off(agent)
    retry_until(lambda: world.handoff(id)["state"] != "running", 60)
    after = world.tmux("list-panes", "-t", "own", "-F", "#{pane_pid}", check=False).strip()
    notes = [s["note"] for s in world.handoff(id)["steps"] if s["step"] == "shut_down"]

    assert (after, [n for n in notes if "SIGKILL" in n]) == (before, [])


@pytest.mark.long
def test_a_pane_of_another_tmux_is_not_ours(world: World) -> None:
    """An agent in another tmux server is not lost because our server has no pane of that number."""
    told(world, "SessionStart", str(uuid.uuid4()), "%77", "/tmp/another/tmux")
    with suppress(AssertionError):
        retry_until(world.alarms, 9)
    (agent,) = world.api("GET", "/api/agents")["agents"]

    assert ([a["text"] for a in world.alarms()], agent["ended_at"]) == ([], None)


def test_a_process_that_has_only_its_number_in_common_is_not_ended(world: World) -> None:
    """After a reboot the number of an agent's process is that of another program: that lives on."""
    agent = world.started()
    world.kill()
    world.tmux("kill-server")
    with subprocess.Popen(["sleep", "300"]) as other:
        try:
            world.sql(f"UPDATE agents SET process = {other.pid}")
            world.serve()
            with suppress(Refused):
                world.api("POST", f"/api/agents/{agent}/stop")

            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.long
def test_a_server_that_is_started_inside_of_another_tmux(world: World) -> None:
    """`tasuki serve` in a pane of another tmux server does not take every agent for lost."""
    agent = world.started()
    world.kill()
    world.tmux("-L", "other", "new-session", "-d", "-s", "x", "sh")
    try:
        world.env["TMUX"] = world.tmux(
            "-L", "other", "display-message", "-p", "#{socket_path},#{pid},0"
        ).strip()
        world.serve()
        with suppress(AssertionError):
            retry_until(lambda: world.agent(agent)["ended_at"], 9)
        found = world.agent(agent)
    finally:
        del world.env["TMUX"]
        world.tmux("-L", "other", "kill-server", check=False)

    assert (found["state"], found["end_reason"]) == ("idle", "")


def test_a_program_that_has_the_port_of_a_dead_server(tmp_path: Path) -> None:
    """What answers there is not tasuki: its words do not reach the agent, and the event is kept."""
    folder = tmp_path / "fleet"
    script = write_hook_script(folder)
    (folder / "hook-token").write_text("hook-secret\n")
    with hook_server() as server:
        server.says = b"Hello World!"
        (folder / "address").write_text(f"{server.address}\n")
        done = subprocess.run(["sh", str(script), "claude"], input=b'{"hook_event_name":"SessionStart"}',
                              capture_output=True, timeout=20, check=True)  # fmt: skip
        sent = [seen.headers.get("Authorization") for seen in server.seen]

    assert (done.stdout, len(list(spool.list_waiting(folder / "spool")))) == (b"", 1)
    assert "Bearer hook-secret" not in sent


# -- orders of the operator ------------------------------------------------------------


@pytest.mark.long
def test_a_cancelled_handoff_ends_no_agent(world: World) -> None:
    """Cancelled while the end waits for another turn of the agent: it is not ended."""
    go, hold = world.folder / "go", world.folder / "hold"
    world.script(
        document=[["document", "{path}"], ["wait_for", str(go)], ["say", "written"]],
        slowly=[["wait_for", str(hold)], ["say", "so"]],
    )
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until(lambda: world.seen("wrote"), 20)
    pane = world.agent(agent)["pane"]
    world.tmux("send-keys", "-t", pane, "-l", "slowly please")
    world.tmux("send-keys", "-t", pane, "Enter")
    time.sleep(1)
    go.touch()
    retry_until(lambda: world.handoff(id)["step"] == "shut_down", 20)
    retry_until(lambda: world.agent(agent)["state"] == "busy", 20)
    assert world.api("POST", f"/api/handoffs/{id}/cancel")["state"] == "cancelled"
    hold.touch()
    with suppress(AssertionError):
        retry_until(lambda: world.seen("exit"), 8)

    assert (world.seen("exit"), world.agent(agent)["ended_at"]) == ([], None)


@pytest.mark.long
def test_an_agent_whose_handoff_was_finished_by_hand_can_be_handed_off(world: World) -> None:
    """`finish` before the end of the agent: it is alive, and not barred for ever."""
    world.script(document=[["say", "no"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    with suppress(Refused):
        world.api("POST", f"/api/handoffs/{id}/finish")
    world.script()

    assert world.ends(world.hand_off(agent))["state"] == "done"


@pytest.mark.parametrize("how", by_default(["kill", "exit"], "kill"))
def test_a_successor_that_dies_with_its_prompt(world: World, how: str) -> None:
    """At `successor_died`: "retry: a new one is started" is true at each step."""
    world.script(prompt=[[how]])
    id = world.hand_off(world.worked(world.started()))
    code = world.failed(id)
    first = world.handoff(id)["successor_id"]
    world.script()
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)

    assert (code, of["successor_id"] != first) == ("successor_died", True)


def successor_died(world: World) -> tuple[str, str]:
    """A handoff whose successor's program ended at once, mended by now; and its persona."""
    agent = world.worked(world.started())
    program = world.folder / "bin" / "claude"
    good = program.read_text()
    program.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    id = world.hand_off(agent)
    world.failed(id)
    slug = world.handoff(id)["persona"]
    retry_until(lambda: not living(world, slug), 20)
    program.write_text(good)
    return id, slug


def test_never_two_agents_of_one_persona(world: World) -> None:
    """While a handoff stands behind the end of its agent, nobody else becomes its persona."""
    id, slug = successor_died(world)
    with suppress(Refused):
        world.started(persona=slug)
    with suppress(Refused):
        world.api("POST", f"/api/handoffs/{id}/retry")
        retry_until(lambda: world.handoff(id)["state"] != "running", 40)

    assert len(living(world, slug)) == 1, living(world, slug)


def test_two_starts_at_once_of_one_persona(world: World) -> None:
    """Two operators start an agent of one persona at the same time: one is refused."""
    slug = world.persona()
    body = {"harness": "claude", "cwd": str(world.work), "persona": slug}

    def start() -> None:
        with suppress(Refused):
            world.api("POST", "/api/agents", body)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(living(world, slug)) == 1, living(world, slug)


def test_what_is_said_of_an_agent_that_is_gone_works(world: World) -> None:
    """`agent_gone`: the command that its remedy names is one."""
    world.script(document=[["kill"]])
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent), "failed")
    command = of["failure"]["remedy"].partition("tasuki ")[2]
    said = world.tasuki(*shlex.split(command), code=None)

    assert (of["failure"]["code"], "Missing option" in said) == ("agent_gone", False)


@pytest.mark.long
def test_a_skill_that_is_uncertain_is_not_called_the_prompt(world: World) -> None:
    """To finish it would be wrong: nothing of the handoff was typed yet."""
    agent = world.worked(world.started())
    world.slow_start()
    world.rules({"match": "You are Con", "ignore_enter": 99, "do": []})
    id = world.hand_off(agent)
    retry_until(lambda: world.handoff(id)["state"] != "running", 60)
    of = world.handoff(id)

    assert of["failure"]["step"] == "skill", of["failure"]
    assert "finish" not in of["failure"]["remedy"]


# -- what goes away meanwhile ----------------------------------------------------------


@pytest.mark.long
def test_a_folder_that_is_gone_by_then(world: World) -> None:
    """The agent's folder was removed: the successor cannot be started, by that name."""
    world.kill()
    world.serve(at="shut_down:after")
    folder = world.folder / "gone"
    folder.mkdir()
    id = world.hand_off(world.worked(world.started(cwd=str(folder))))
    world.kill_at_point()
    folder.rename(folder.with_name("elsewhere"))
    world.serve()

    assert world.failed(id) == "successor_not_started"


@pytest.mark.long
def test_a_persona_that_was_retired_by_then(world: World) -> None:
    """A persona cannot be retired while a handoff of it is unfinished; or a retry says what to do."""
    id, slug = successor_died(world)
    retired = True
    try:
        world.api("DELETE", f"/api/personas/{slug}")
    except Refused:
        retired = False
    world.api("POST", f"/api/handoffs/{id}/retry")
    retry_until(lambda: world.handoff(id)["state"] != "running", 40)
    failure = world.handoff(id)["failure"]

    assert not retired or (failure and failure["code"] != "unexpected"), failure


def test_a_skill_that_is_too_long(world: World) -> None:
    """A `skill.md` of 1 MB: the operator is told, before an agent works without it."""
    slug = world.persona()
    (world.data / "data/personas" / slug / "skill.md").write_text("x" * (1 << 20))
    started = True
    try:
        world.started(persona=slug)
    except Refused:
        started = False

    assert not started or world.alarms()


def test_an_agent_outside_of_tmux_whose_end_was_not_told(world: World) -> None:
    """An agent of which neither pane nor process is known is given up after a day without a word."""
    told(world, "SessionStart", str(uuid.uuid4()))
    told(world, "SessionStart", str(uuid.uuid4()))
    world.sql(f"UPDATE agents SET state_at = {time.time() - 86460} WHERE id = 1")
    retry_until(lambda: world.agent(1)["ended_at"], 20)

    assert (world.agent(1)["state"], world.agent(2)["ended_at"]) == ("lost", None)


def test_an_anonymous_agent_whose_process_is_gone(world: World) -> None:
    """An agent that the operator began in a shell in tmux, killed: its pane is there, and it has ended."""
    pane = own_pane(world)
    world.tmux("send-keys", "-t", pane, "claude", "Enter")
    retry_until(lambda: world.api("GET", "/api/agents")["agents"], 20)
    os.kill(world.agent_rows()[0]["process"], signal.SIGKILL)
    with suppress(AssertionError):
        retry_until(lambda: world.agent(1)["ended_at"], 9)

    assert world.agent(1)["ended_at"]


def test_a_compaction_that_was_broken_off(world: World) -> None:
    """The end of a compaction was never told, and the program is ready: the agent can be handed off."""
    agent = world.worked(world.started())
    session = world.agent(agent)["session"]
    token = (world.data / "fleet" / "hook-token").read_text().strip()
    body = {"hook_event_name": "PreCompact", "session_id": session, "cwd": "/", "trigger": "manual"}
    request = urllib.request.Request(
        f"http://{world.address()}/api/hooks/claude", data=json.dumps(body).encode()
    )
    request.add_header("Authorization", f"Bearer {token}")
    urllib.request.urlopen(request, timeout=10).close()
    assert world.agent(agent)["state"] == "compacting"
    world.sql("UPDATE agents SET state_at = state_at - 130")  # two minutes have gone by

    assert world.ends(world.hand_off(agent))["state"] == "done"


def test_a_start_that_the_disk_refuses_leaves_nothing(world: World) -> None:
    """The order cannot be written: the agent has ended, and its persona can be started again."""
    slug = world.persona()
    launch = world.data / "fleet" / "launch"
    launch.write_text("")
    body = {"harness": "claude", "cwd": str(world.work), "persona": slug}
    with suppress(Refused):
        world.api("POST", "/api/agents", body)
    launch.unlink()
    left = living(world, slug)
    stopped = [refusal(world, f"/api/agents/{id}/stop", {}) for id in left]

    assert (left, stopped) == ([], [])


def test_an_event_in_flight_when_the_server_ends_is_kept(tmp_path: Path) -> None:
    """The database is away and the server is stopped: a spooled event stays in its file."""
    database = FleetDatabase(f"sqlite:///{tmp_path / 'nowhere' / 'fleet.db'}")
    changes, folder = ChangeFeed(), tmp_path / "spool"
    intake = EventIntake(
        database, changes, "h", read_skill=str, threshold=80.0, on_commit=lambda *_: None
    )
    watch = FleetWatch(
        database, None, None, intake, folder, lambda: None, lambda _: None, lambda _: None, 80.0
    )  # type: ignore[arg-type]
    folder.mkdir()
    event = folder / "1.json"
    event.write_text('harness: claude\n\n{"hook_event_name":"Stop","session_id":"s-1"}')
    intake.start()
    watch.start()
    retry_until(lambda: intake.is_blocked, 20)
    changes.close()
    watch.close(10)
    intake.close(10)

    assert event.exists()


# -- what is said ----------------------------------------------------------------------


def test_secrets_do_not_leave_by_the_log(world: World) -> None:
    """A key in a reason is redacted in the log as it is in the handoff."""
    world.script(document=[["say", "no"]])
    id = world.hand_off(world.worked(world.started()), reason=f"out of quota of {KEY}")
    world.failed(id)

    assert (KEY in json.dumps(world.handoff(id)), KEY in json.dumps(world.log())) == (False, False)


@pytest.mark.long
def test_what_stood_in_the_input_does_not_leave_by_the_log(world: World) -> None:
    """A key that stood unsent in the input is taken away, and not told to every reader of the log."""
    agent = world.worked(world.started())
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "-l", f"use {KEY}")
    time.sleep(1)
    world.ends(world.hand_off(agent))

    assert KEY not in json.dumps(world.log())


@pytest.mark.parametrize(
    "answer",
    [
        "```\nhandoff 1a2b3c4d\n```\nI go on.",
        "handoff 1a2b3c4d: I have read it.",
        "\u200bhandoff 1a2b3c4d",
    ],
)
def test_d14_an_acknowledgement_in_odd_clothes(answer: str) -> None:
    """A code fence, a colon: the successor did acknowledge."""
    assert successor_steps.starts_with_line(answer, "handoff 1a2b3c4d")
