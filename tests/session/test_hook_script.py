"""The hook script in real shells: what it sends, what it keeps, and that it never stands in the way."""

import json
import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hook_servers import PROOF, HookServer, hook_server
from hooks import SHELLS, in_shell

from tasuki.fleet.hooks import spool
from tasuki.fleet.hooks.correlator import HookPost
from tasuki.harness.plans import build_fleet_hook
from tasuki.install import hook_script
from tasuki.install.hook_script import HUNG, MOST_BYTES, REST_SECONDS, write_hook_script
from tasuki.web.security.single_server import format_address_file

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")

TOKEN, AGENT = "hook-secret-7d1", "agent-secret-9f2"
PAYLOAD = b'{"hook_event_name":"Stop","session_id":"s-1"}'
ODD = 'a"\nurl = "http://127.0.0.1:1"\r\nX-Evil: 1\t$(id)`id`\\ é;'


class Hook:
    """The script in a folder of its own, and the environment of the hook that calls it."""

    def __init__(self, root: Path, shell: str) -> None:
        self.root, self.shell = root, shell
        self.folder = root / "it's data" / "fleet"
        self.path = write_hook_script(self.folder)
        (self.folder / "hook-token").write_text(f"{TOKEN}\n")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "TASUKI_AGENT_TOKEN": AGENT,
            "TMUX": "/tmp/tmux-0/own,4242,0",
            "TMUX_PANE": "%7",
        }

    def at(self, address: str) -> "Hook":
        """Let the server be there."""
        (self.folder / "address").write_text(format_address_file(address, PROOF))
        return self

    def run(
        self,
        payload: bytes = PAYLOAD,
        before: Callable[[], None] | None = None,
        seconds: float = 20,
        **env: str,
    ) -> bytes:
        """What it prints; it always ends well, and says nothing on standard error."""
        words = [self.shell, "sh"] if self.shell == "busybox" else [self.shell]
        done = subprocess.run(
            [*words, str(self.path), "claude"], input=payload, env={**self.env, **env},
            capture_output=True, timeout=seconds, check=False, preexec_fn=before,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def kept(self) -> list[HookPost | None]:
        """The events in the spool, as the server reads them."""
        return [spool.read_post(path) for path in spool.list_waiting(self.folder / "spool")]

    def all_kept(self) -> list[str]:
        """Every name in the spool, of unfinished files too."""
        return sorted(os.listdir(self.folder / "spool"))


@pytest.fixture(params=[shell for shell in SHELLS if shell != "zsh"])
def hook(request: pytest.FixtureRequest, tmp_path: Path) -> Hook:
    """The script, as each of the shells runs it that may be `sh`."""
    shell = shutil.which(request.param)
    assert shell
    return Hook(tmp_path, shell if request.param != "busybox" else "busybox")


@pytest.fixture
def server() -> Iterator[HookServer]:
    """A server for hooks."""
    with hook_server() as made:
        yield made


# -- with a server ---------------------------------------------------------------------


def test_everything_arrives_and_the_answer_is_printed(hook: Hook, server: HookServer) -> None:
    """Path, payload and headers; what the server says stands on standard output; nothing is kept."""
    server.says = b'{"context": "You are Con, 100% of it: %s\\n"}'
    said = hook.at(server.address).run()
    (seen,) = server.seen
    got = {name: seen.headers[f"X-Tasuki-{name}"] for name in ("Agent", "Pane", "Socket", "Pid")}

    assert said == server.says + b"\n"
    assert (seen.path, seen.body) == ("/api/hooks/claude", PAYLOAD)
    assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["Content-Type"] == "application/json"
    assert got == {"Agent": AGENT, "Pane": "%7", "Socket": "/tmp/tmux-0/own", "Pid": str(os.getpid())}  # fmt: skip
    assert float(seen.headers["X-Tasuki-Time"]) > 1_700_000_000
    assert not (hook.folder / "spool").exists()


def test_no_answer_prints_nothing_and_each_event_has_an_id(hook: Hook, server: HookServer) -> None:
    """An empty answer is empty; two events differ in their id."""
    hook.at(server.address)

    assert (hook.run(), hook.run()) == (b"", b"")
    assert len({seen.headers["X-Tasuki-Event"] for seen in server.seen}) == 2


def test_no_secret_stands_in_a_command_line(hook: Hook, server: HookServer) -> None:
    """While curl waits for the answer nobody sees a token, or the payload, by looking at processes."""
    hook.at(server.address).run()
    (seen,) = server.seen

    assert any(b"curl" in command for command in seen.commands)
    for secret in (TOKEN, AGENT, "session_id"):
        assert not any(secret.encode() in command for command in seen.commands)


def test_curls_settings_and_proxies_do_not_count(hook: Hook, server: HookServer) -> None:
    """Neither a ~/.curlrc, nor one that CURL_HOME names, nor a proxy leads the event astray."""
    for folder in (hook.root, hook.root / "other"):
        folder.mkdir(exist_ok=True)
        (folder / ".curlrc").write_text('proxy = "http://127.0.0.1:1"\nfail-early\nhead\n')
    away = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:1")  # fmt: skip
    hook.at(server.address).run(CURL_HOME=str(hook.root / "other"), **away)

    assert [seen.body for seen in server.seen] == [PAYLOAD]


@pytest.mark.parametrize("name", ["TMUX", "TMUX_PANE", "TASUKI_AGENT_TOKEN"])
def test_odd_variables_put_nothing_into_the_request(
    hook: Hook, server: HookServer, name: str
) -> None:
    """Quotes and line ends in the environment add no header and no option of curl's."""
    hook.at(server.address).run(**{name: ODD})
    hook.at("127.0.0.1:1").run(**{name: ODD})
    (seen,) = server.seen
    (kept,) = hook.kept()
    clean = "aurl=http://127.0.0.1:1X-Evil:1idid"
    header = {"TMUX": "Socket", "TMUX_PANE": "Pane", "TASUKI_AGENT_TOKEN": "Agent"}[name]

    assert seen.body == PAYLOAD
    assert "X-Evil" not in seen.headers
    assert seen.headers[f"X-Tasuki-{header}"] == clean
    assert kept
    assert clean in (kept.socket, kept.pane, kept.token)
    assert kept.body == PAYLOAD


@pytest.mark.parametrize("size", [64 << 10, MOST_BYTES])
def test_a_large_payload_arrives_whole(hook: Hook, server: HookServer, size: int) -> None:
    """Up to the bound nothing is cut off."""
    payload = b'{"text":"' + b"x" * (size - 11) + b'"}'
    hook.at(server.address).run(payload)
    (seen,) = server.seen

    assert len(payload) == size
    assert seen.body == payload


@pytest.mark.parametrize("address", ["", "127.0.0.1:1"])
def test_what_is_larger_is_read_and_dropped(hook: Hook, server: HookServer, address: str) -> None:
    """Half a document is of no use: it is neither sent nor kept, and the writer is not broken off."""
    hook.at(address or server.address).run(b'{"text":"' + b"x" * (3 * MOST_BYTES) + b'"}')

    assert server.seen == []
    assert not (hook.folder / "spool").exists()


def test_bytes_that_are_no_text_are_passed_on(hook: Hook, server: HookServer) -> None:
    """Whatever the payload holds, but for zero bytes, which JSON cannot have."""
    payload = bytes(range(1, 256)) + b"\\n\\0%s\xff\xfe"
    hook.at(server.address).run(b"\0" + payload)
    hook.at("127.0.0.1:1").run(payload)
    (kept,) = hook.kept()

    assert [seen.body for seen in server.seen] == [payload]
    assert kept
    assert kept.body == payload


# -- without ---------------------------------------------------------------------------


def test_a_server_that_hangs_is_not_waited_for(hook: Hook, server: HookServer) -> None:
    """The hook ends though no answer comes; the event is kept under the id that was sent."""
    server.free.clear()
    said = hook.at(server.address).run(seconds=4)  # harnesses end a hook after 3 to 5
    (seen,), (kept,) = server.seen, hook.kept()

    assert said == b""
    assert kept
    assert kept.event_id == seen.headers["X-Tasuki-Event"]


def test_one_hook_in_a_while_asks_a_server_that_hangs(hook: Hook, server: HookServer) -> None:
    """The others keep their events at once; the one that asks again is the only one meanwhile."""
    server.free.clear()
    hook.at(server.address)
    for _ in range(3):
        hook.run()
    asked = len(server.seen)
    note = hook.folder / HUNG
    pid, began, at = note.read_text().split()
    note.write_text(f"{pid} {began} {int(at) - REST_SECONDS}\n")
    for _ in range(2):
        hook.run()
    again, kept = len(server.seen), len(hook.kept())
    server.free.set()
    note.write_text(f"{pid} {began} {int(at) - REST_SECONDS}\n")
    for _ in range(2):
        hook.run()

    assert (1, 2, 4) == (asked, again, len(server.seen))
    assert (5, 5) == (kept, len(hook.kept()))
    assert [] == [name for name in os.listdir(hook.folder) if name.startswith(HUNG)]


@pytest.mark.parametrize("note", ["1 1 {now}", "{pid} {began} {later}", "nonsense", "", "{pid} {began} x"])  # fmt: skip
def test_a_note_that_says_nothing_of_this_server_is_nothing(
    hook: Hook, server: HookServer, note: str
) -> None:
    """Of another process, of the time to come, or damaged: the server is asked."""
    hook.at(server.address)
    pid, began = (hook.folder / "address").read_text().splitlines()[1].split()[:2]
    now = int(time.time())
    text = note.format(pid=pid, began=began, now=now, later=now + 100)
    (hook.folder / HUNG).write_text(text)
    hook.run()

    assert (1, []) == (
        len(server.seen),
        [name for name in os.listdir(hook.folder) if name == "spool"],
    )


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_what_the_server_refuses_is_kept(hook: Hook, server: HookServer, status: int) -> None:
    """Its words do not reach the agent; the event is tried again."""
    server.status, server.says = status, b"words for nobody"

    assert hook.at(server.address).run() == b""
    assert len(hook.kept()) == 1


def test_the_event_is_kept_as_the_server_reads_it(hook: Hook) -> None:
    """Refused: one whole file that only its owner may read, with everything that would have been sent."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        hook.at(f"127.0.0.1:{taken.getsockname()[1]}").run()
    (kept,), (name,) = hook.kept(), hook.all_kept()
    path = hook.folder / "spool" / name

    assert kept
    assert kept == HookPost("claude", PAYLOAD, AGENT, kept.event_id, kept.at, "%7", "/tmp/tmux-0/own", os.getpid(), True)  # fmt: skip
    assert (len(kept.event_id) >= 8, kept.at > 1_700_000_000) == (True, True)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_without_a_server_or_a_token_it_is_kept(hook: Hook) -> None:
    """No server was ever started; or its token is gone. The order is that of the events."""
    hook.run(b'{"n":1}')
    hook.at("127.0.0.1:1").run(b'{"n":2}')
    (hook.folder / "hook-token").unlink()
    hook.run(b'{"n":3}')

    assert [json.loads(kept.body)["n"] for kept in hook.kept() if kept] == [1, 2, 3]


def test_without_curl_or_home_it_is_kept(hook: Hook, server: HookServer, tmp_path: Path) -> None:
    """A machine that lacks curl loses nothing."""
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("head", "date", "mkdir", "ls", "wc", "mv", "rm", "cat", "tr"):
        (bare / name).symlink_to(str(shutil.which(name)))
    hook.at(server.address)
    del hook.env["HOME"]
    hook.run(PATH=str(bare))

    assert server.seen == []
    assert len(hook.kept()) == 1


def test_the_number_of_files_is_bounded(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come later are counted, and dropped; taking them in makes room."""
    monkeypatch.setattr(hook_script, "MOST_FILES", 3)
    write_hook_script(hook.folder)
    for _ in range(5):
        hook.run()

    assert len(hook.all_kept()) == 3
    assert spool.count_dropped(hook.folder / "spool") == 2


def test_a_folder_that_cannot_be_written_is_no_error(hook: Hook) -> None:
    """The agent sees nothing of it."""
    (hook.folder / "spool").write_text("in the way")

    assert hook.run() == b""


def test_a_full_disk_leaves_no_half_a_file(hook: Hook) -> None:
    """What did not fit is taken away again."""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    hook.run(b'{"text":"' + b"x" * 65_536 + b'"}', before=full)

    assert hook.all_kept() == []


def test_no_payload_is_no_event(hook: Hook, server: HookServer) -> None:
    """A hook that is called with nothing tells nothing."""
    hook.at(server.address).run(b"")

    assert server.seen == []
    assert not (hook.folder / "spool").exists()


def test_the_hook_is_silent_once_the_script_is_gone(hook: Hook) -> None:
    """What stands in a harness's settings asks for the script, and does without."""
    hook.path.unlink()
    done = in_shell(hook.shell, build_fleet_hook(str(hook.path), "claude"), PAYLOAD)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_hook_runs_the_script(hook: Hook, server: HookServer) -> None:
    """The command that stands in a harness's settings, with a quote in the folder's name."""
    server.says = b"an answer"
    hook.at(server.address)
    done = in_shell(hook.shell, build_fleet_hook(str(hook.path), "codex"), PAYLOAD)

    assert (done.returncode, done.stdout) == (0, b"an answer\n")
    assert [seen.path for seen in server.seen] == ["/api/hooks/codex"]


def test_the_script_is_written_once_and_brought_up_to_date(tmp_path: Path) -> None:
    """The same text is left alone; another is replaced; only its owner may read it."""
    path = write_hook_script(tmp_path / "fleet")
    first = path.stat()
    write_hook_script(tmp_path / "fleet")
    assert path.stat().st_mtime_ns == first.st_mtime_ns
    path.write_text("old")
    write_hook_script(tmp_path / "fleet")

    assert path.read_text() == hook_script.build_hook_script(tmp_path / "fleet")
    assert path.stat().st_mode & 0o777 == 0o700
