"""The hook script beside an address that is no more, or another's, and a spool that fills up."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_servers import PROOF, HookServer, hook_server
from serve_command import TASUKI, Server
from test_hook_script import PAYLOAD, Hook, hook
from waiting import retry_until

from tasuki.fleet.hooks import spool
from tasuki.install import hook_script
from tasuki.install.hook_script import write_hook_script
from tasuki.web.security.single_server import format_address_file, publish_address

__all__ = ["hook"]
pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
OTHER = "pid:[4026539999]"


@pytest.fixture
def server() -> Iterator[HookServer]:
    """A program that answers hooks."""
    with hook_server() as made:
        made.says = b"Hello World!"
        yield made


def says(hook: Hook, server: HookServer, **words: str) -> bytes:
    """What a hook prints with some words of the address's second line changed, in their order."""
    line = format_address_file(server.address, PROOF).splitlines()[1].split()
    known = dict(zip(("pid", "began", "boot", "namespace"), line, strict=True)) | words
    (hook.folder / "address").write_text(f"{server.address}\n{' '.join(known.values())}\n{PROOF}\n")
    return hook.run()


# -- whose the address is --------------------------------------------------------------


def test_the_server_of_the_address_gets_the_event(hook: Hook, server: HookServer) -> None:
    """What a server writes of itself is what the script believes."""
    with publish_address(hook.folder, server.address, PROOF):
        said = hook.run()

    assert (said, len(server.seen)) == (b"Hello World!\n", 1)
    assert not (hook.folder / "spool").exists()


@pytest.mark.parametrize("which", ["dead", "zombie", "another", "before a reboot", "nonsense"])
def test_a_program_on_a_dead_servers_port_gets_nothing(
    hook: Hook, server: HookServer, which: str
) -> None:
    """Its process is over, or is another one by now: no token and no payload is sent, the event is kept."""
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        if which != "zombie":
            other.wait()
        words = {
            "dead": {"pid": str(other.pid)},
            "zombie": {"pid": str(other.pid), "began": _began(other.pid)},
            "another": {"began": "1"},
            "before a reboot": {"boot": "5f1d", "namespace": OTHER},
            "nonsense": {"pid": "../self"},
        }[which]
        said = says(hook, server, **words)

    assert (said, server.seen, len(hook.kept())) == (b"", [], 1)


def _began(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "0"


@pytest.mark.parametrize("text", ["{}\n", "{}", "{}\n\n\n", "{}\n\n" + PROOF + "\n", ""])
def test_an_address_that_names_no_process_gets_nothing(
    hook: Hook, server: HookServer, text: str
) -> None:
    """As an older server wrote it, or what is left of a file."""
    (hook.folder / "address").write_text(text.format(server.address))

    assert (hook.run(), server.seen, len(hook.kept())) == (b"", [], 1)


def test_a_server_in_a_container_is_known_by_its_answer(hook: Hook, server: HookServer) -> None:
    """Its process cannot be seen from here; the event is sent."""
    assert says(hook, server, pid="1", namespace=OTHER) == b"Hello World!\n"
    assert not (hook.folder / "spool").exists()


@pytest.mark.parametrize(
    ("status", "proof"),
    [(200, ""), (200, "another"), (204, PROOF), (301, PROOF), (304, PROOF), (404, PROOF)],
)
def test_an_answer_without_proof_does_not_count(
    hook: Hook, server: HookServer, status: int, proof: str
) -> None:
    """The event is kept, and what a foreign program says does not reach the agent."""
    server.status, server.proof = status, proof
    server.says = b"" if status in (204, 304) else f"\nX-Tasuki: {PROOF}\n\nHello".encode()

    assert says(hook, server, namespace=OTHER, pid="1") == b""
    assert len(hook.kept()) == 1


def test_an_answer_is_printed_as_it_is(hook: Hook, server: HookServer) -> None:
    """Empty lines, and what looks like the end of headers, are the answer's own."""
    server.says = b"one\n\n\r\n\r\ntwo\n \nHTTP/1.1 200 OK"

    assert says(hook, server) == server.says + b"\n"


def test_a_server_answers_hooks_until_it_is_killed(tmp_path: Path) -> None:
    """The real one; what has its port behind it hears neither a hook nor a command."""
    made = Server(tmp_path)
    try:
        running = made.start()
        hook = Hook(tmp_path, "sh")
        hook.folder, hook.path = made.fleet, write_hook_script(made.fleet)
        hook.run()
        kept = (made.fleet / "spool").exists()
        running.kill()
        running.communicate()
        with hook_server(int(made.address.rpartition(":")[2])) as server:
            said = hook.run()
            command = subprocess.run([str(TASUKI), "agent", "list"], env=made.env, text=True,
                                     capture_output=True, check=False, timeout=60)  # fmt: skip
    finally:
        made.end()

    assert (kept, said, server.seen, len(hook.kept())) == (False, b"", [], 1)
    assert command.returncode == 1
    assert command.stderr.endswith(
        f"The server at http://{made.address} is gone. Start one: tasuki serve\n"
    )


# -- the spool -------------------------------------------------------------------------


def status(hook: Hook, session: str, number: int) -> None:
    """A status line is told, and kept."""
    payload = f'{{"session_id": "{session}", "context_window":{{"n":{number}}}}}'.encode()
    words = [hook.shell, "sh"] if hook.shell == "busybox" else [hook.shell]
    subprocess.run([*words, str(hook.path), "claude", "status"], input=payload, env=hook.env,
                   check=True, timeout=20)  # fmt: skip


def test_of_status_lines_the_newest_of_each_session_is_kept(hook: Hook) -> None:
    """One file for a session, behind the events, whatever its id holds."""
    for number in range(3):
        for session in ("one", "two", "../../x\\u0000"):
            status(hook, session, number)
    hook.run()
    kept = hook.kept()

    assert [k.body[-7:] for k in kept if k] == [PAYLOAD[-7:], *[b'"n":2}}'] * 3]
    assert hook.all_kept()[1:] == ["status--.json", "status-one.json", "status-two.json"]


def test_the_status_command_keeps_one_file(tmp_path: Path) -> None:
    """`tasuki status` says to the script that it is one."""
    write_hook_script(tmp_path / "fleet")
    for _ in range(2):
        subprocess.run([sys.executable, "-m", "tasuki", "status", "claude"], input=b'{"session_id":"s"}',
                       env={**os.environ, "TASUKI_DATA": str(tmp_path)}, check=True, timeout=60)  # fmt: skip
    kept = tmp_path / "fleet" / "spool"
    retry_until(lambda: (kept / "status-s.json").exists())

    assert [name for name in os.listdir(kept) if not name.startswith(".")] == ["status-s.json"]


def test_the_last_places_are_for_what_matters(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full spool takes ends and starts for a while; a status that stands in it already is renewed."""
    monkeypatch.setattr(hook_script, "MOST_FILES", 10)
    write_hook_script(hook.folder)
    status(hook, "old", 1)
    for _ in range(12):
        hook.run(b'{"hook_event_name":"UserPromptSubmit"}')
    status(hook, "old", 2)
    status(hook, "new", 1)
    before = len(hook.all_kept())
    for _ in range(2):
        hook.run(b'{"hook_event_name":"SessionEnd"}')
    (old,) = [k.body for k in hook.kept() if k and b"old" in k.body]

    assert (before, len(hook.all_kept()), spool.count_dropped(hook.folder / "spool")) == (9, 10, 5)
    assert b'"n":2' in old


def test_the_bytes_of_the_spool_are_bounded(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large payloads fill it before their number does."""
    monkeypatch.setattr(hook_script, "MOST_SPOOLED", 1 << 20)
    write_hook_script(hook.folder)
    for _ in range(12):
        hook.run(b'{"text":"' + b"x" * 200_000 + b'"}')

    assert len(hook.all_kept()) == 5
    assert spool.count_dropped(hook.folder / "spool") == 7
