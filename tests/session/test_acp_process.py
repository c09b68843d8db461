"""The ACP proxy as a process: its agent's group, its exit code, and what it loads."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acp_client import HELLO, Setting, block, setting
from fakes.acp_agent import AcpRule, AcpStep
from waiting import children, retry_until, runs

__all__ = ["setting"]


async def test_the_client_goes(setting: Setting) -> None:
    """The agent ends with its input, and its own exit code is passed on."""
    async with setting.client(setting.proxied(farewell=3)) as client:
        await client.open()
        code = await client.close()

    assert code == 3


async def test_a_child_that_outlives_the_agent(setting: Setting) -> None:
    """The whole group of the agent ends, also a child that holds its output open."""
    told = setting.folder / "child"
    async with setting.client(setting.proxied(child=str(told))) as client:
        await client.open()
        child = int(told.read_text())
        assert runs(child)
        code = await client.close()

    retry_until(lambda: not runs(child))
    assert code == 0


async def test_an_agent_that_lingers(setting: Setting) -> None:
    """An agent that goes on without a client is ended."""
    async with setting.client(setting.proxied(linger=True)) as client:
        await client.open()
        agent = children(client.process.pid)[0]
        code = await client.close()

    assert not runs(agent)
    assert code == 0


async def test_the_agent_ends(setting: Setting) -> None:
    """Requests that it left open are answered with an error, and its exit code is passed on."""
    async with setting.talk(AcpRule("die", (AcpStep(say="x"), AcpStep(exit=9)))) as (
        client,
        session,
    ):
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("die")])
        failed = await asyncio.wait_for(answer, 10)
        code = await asyncio.wait_for(client.process.wait(), 10)

    assert "The agent ended with status 9." in failed["error"]["message"]
    assert "session/prompt" in failed["error"]["message"]
    assert code == 9


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_an_order_to_end(setting: Setting, order: signal.Signals) -> None:
    """Ended by a signal, the proxy ends the agent's group."""
    told = setting.folder / "child"
    async with setting.client(setting.proxied(child=str(told), linger=True)) as client:
        await client.open()
        child = int(told.read_text())
        client.process.send_signal(order)
        code = await asyncio.wait_for(client.process.wait(), 10)

    assert code == 128 + order
    retry_until(lambda: not runs(child))


async def test_killed(setting: Setting) -> None:
    """Even if the proxy is killed the agent sees the end of its input and ends."""
    async with setting.client(setting.proxied()) as client:
        await client.open()
        agent = children(client.process.pid)[0]
        os.kill(client.process.pid, signal.SIGKILL)
        await client.process.wait()

    retry_until(lambda: not runs(agent))


def run(*arguments: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """`tasuki acp` at the end of pipes."""
    command = [sys.executable, "-m", "tasuki", "acp", *arguments]
    return subprocess.run(command, input=given, capture_output=True, timeout=30, check=False)


def test_no_such_program() -> None:
    """A command that does not exist is named, with what to do."""
    done = run("--", "no-such-agent", "--acp")

    assert done.returncode == 1
    assert b"no-such-agent could not be started" in done.stderr
    assert b"tasuki acp -- gemini --acp" in done.stderr


def test_standard_error_is_the_agents() -> None:
    """What the agent says on standard error is seen, at once."""
    done = run("--", "sh", "-c", "echo here I am >&2; cat >/dev/null; exit 4")

    assert done.stderr == b"here I am\n"
    assert done.returncode == 4


def test_files_for_streams(tmp_path: Path) -> None:
    """From a file there is nobody to speak to; the message says how it is used."""
    empty = tmp_path / "empty"
    empty.write_text("")
    command = [sys.executable, "-m", "tasuki", "acp", "--", "cat"]
    with empty.open() as given:
        done = subprocess.run(command, stdin=given, capture_output=True, timeout=30, check=False)

    assert done.returncode == 2
    assert b"is started by an editor" in done.stderr


def test_a_device_for_standard_input() -> None:
    """`/dev/null` looks like a stream and cannot be waited for: said at once, nothing hangs."""
    done = subprocess.run(
        [sys.executable, "-m", "tasuki", "acp", "--", "cat"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "talks to it over pipes" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_heavy_is_imported() -> None:
    """The proxy starts without the SDK, pydantic, or what only a handoff needs."""
    program = (
        "import sys; sys.argv = ['tasuki', 'acp', '--', 'true']\n"
        "from tasuki.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: code = e.code\n"
        "sys.stderr.write('LOADED ' + ' '.join(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, timeout=30, check=False)  # fmt: skip
    loaded = set(done.stderr.decode().rpartition("LOADED ")[2].split())

    assert done.returncode == 0, done.stderr
    assert "tasuki.session.acp.proxy" in loaded
    heavy = (
        "acp",
        "pydantic",
        "rich",
        "tasuki.session.agent_session.handoff",
        "tasuki.draft.pipeline",
    )
    assert [name for name in heavy if name in loaded] == []


async def test_ended_in_a_handoff(setting: Setting) -> None:
    """A client that goes while the session writes is no reason to stay."""
    rule = AcpRule("Write a handoff", (AcpStep(say="half"), AcpStep(wait=60.0, deaf=True)))
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said())
        code = await client.close()

    assert code == 0
