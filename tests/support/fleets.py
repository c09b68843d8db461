"""A whole fleet for a test: a server in a process of its own, tmux of its own, scripted agents."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import forked
import sqlalchemy as sa
from databases import copy_tables
from fakes.scripted_harness import install_scripted
from forked import ForkedProgram, run_tasuki, start_forked
from tree import PROGRAMS
from waiting import retry_until

from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url
from tasuki.harness.registry import get_containing_file

SERVER = PROGRAMS / "fleet_server.py"
TASUKI = Path(sys.executable).with_name("tasuki")
DOCUMENT = r"(?is)\bwrite\b.*?(?P<path>/[^\s`'\"]*/handoffs/[^\s`'\"]+\.md)"
"""The prompt that asks for a handoff document, with its path."""
SKILL = "You are Con, a developer. Tests come first."


LIMITS = {"idle": 8.0, "instruct": 6.0, "turn": 8.0, "silent": 2.0, "shut_down": 5.0, "signalled": 2.0,
          "register": 8.0, "skill": 8.0, "prompt": 6.0, "deliver": 6.0, "acknowledge": 6.0}  # fmt: skip
"""Time limits that a test can wait for."""


class Refused(AssertionError):
    """The API answered with an error: `status` and `body`."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class World:
    """A home, a data folder, a tmux server and a fleet's server, all of one test.

    A database of SQLite becomes the fleet's own file; without one the first server makes it.
    """

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.folder = folder
        self.home = folder / "home"
        self.data = folder / "data"
        self.work = folder / "work"
        self.journal = folder / "journal.jsonl"
        self.script_file = folder / "script.json"
        on_sqlite = database_url.startswith("sqlite")
        self.database_url = "" if on_sqlite else database_url
        self.sockets = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        for made in (self.home, self.work, folder / "bin"):
            made.mkdir(parents=True)
        if on_sqlite:
            self.data.mkdir(mode=0o700)
            shutil.move(sa.make_url(database_url).database, self.data / "fleet.db")
            copy_tables(self.data / "fleet" / "workflows.db")
        install_scripted(folder / "bin")
        self.script_file.write_text("{}")
        self.env = {
            "PATH": f"{folder / 'bin'}:{TASUKI.parent}:{os.environ['PATH']}",
            "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/sh",
            "TASUKI_DATA": str(self.data), "TASUKI_CONFIG": str(folder / "config.toml"),
            "TMUX_TMPDIR": str(self.sockets), "SCRIPTED_HARNESS": str(self.script_file),
            "SCRIPTED_LOG": str(self.journal),
        }  # fmt: skip
        self.server: subprocess.Popen[bytes] | ForkedProgram | None = None
        self.prefix: list[str] = []
        """Words before the server's command."""
        self._address = ""
        self.output = folder / "server.log"
        self.config(notify="")

    # -- programs ----------------------------------------------------------------------

    def config(self, **values: Any) -> None:
        """The user's settings."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (self.folder / "config.toml").write_text("\n".join(lines) + "\n")

    def tasuki(
        self, *arguments: str, code: int | None = 0, cwd: Path | None = None, input: str = ""
    ) -> str:
        """Run tasuki; what it prints."""
        done = run_tasuki(arguments, env=self.env, cwd=cwd or self.work, input=input)
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def tmux(self, *arguments: str, check: bool = True) -> str:
        """One command of this test's tmux."""
        done = subprocess.run(
            ["tmux", *arguments], env=self.env, capture_output=True, text=True, check=False
        )
        assert not check or not done.returncode, done.stderr
        return done.stdout

    def screen(self, pane: str) -> str:
        """What a pane shows."""
        return self.tmux("capture-pane", "-p", "-t", pane, check=False)

    def install(self) -> None:
        """The hooks of the fleet are in the harness."""
        self.tasuki("install", "claude", "--fleet", "--yes")

    def script(self, **rules: list[Any]) -> None:
        """What the harness does from now on, by a word of the prompt, or `document`, `prompt`."""
        known = {"document": DOCUMENT, "prompt": "(?i)begin your answer with"}
        made = [{"match": known.get(word, word), "do": do} for word, do in rules.items()]
        self.rules(*made)

    def rules(self, *rules: dict[str, Any]) -> None:
        """The rules of the harness's script, as they stand there."""
        new = self.folder / "script.new"
        new.write_text(json.dumps({"rules": rules}))
        new.rename(self.script_file)

    def install_status_line(self) -> None:
        """The harness tells its context use in its status line."""
        self.tasuki("install", "claude", "--yes")

    def slow_start(self) -> None:
        """From now on a session's start is told from the spool: no answer reaches it."""
        settings = self.home / ".claude" / "settings.json"
        known = json.loads(settings.read_text())
        for hook in known["hooks"]["SessionStart"]:
            for one in hook["hooks"]:
                if "hook.sh" in one["command"]:
                    one["command"] = f"rm -f {self.data}/fleet/address; {one['command']}"
        settings.write_text(json.dumps(known))

    # -- the server --------------------------------------------------------------------

    def serve(
        self,
        *options: str,
        at: str = "",
        limits: str = "",
        later: str = "",
        port: int = 0,
        seconds: float = 30,
    ) -> None:
        """Start the server; `at` names a point of the code at which it stops and waits to be killed.

        `later`: it is a later version of tasuki. `port` 0 is a free one, and `seconds` is how long it may take.
        """
        self.reached.unlink(missing_ok=True)
        (self.data / "fleet" / "address").unlink(missing_ok=True)
        self._address = "127.0.0.1:1"
        env = {**self._serve_env(), "FLEET_STOP_AT": at, "FLEET_REACHED": str(self.reached),
               "FLEET_LIMITS": limits, "FLEET_LATER": later}  # fmt: skip
        words = ("serve", "--port", str(port), *options)
        if not self.prefix:
            files = (Path(os.devnull), self.output, self.output)
            self.server = start_forked(
                SERVER, words, env=env, cwd=self.folder, files=files, modules=forked.SERVER
            )
        else:
            with self.output.open("ab") as output:
                self.server = subprocess.Popen(
                    [*self.prefix, sys.executable, str(SERVER), *words],
                    env=env, cwd=self.folder, stdout=output, stderr=output,
                )  # fmt: skip
        retry_until(self._answers, seconds)

    def refused(self, *options: str) -> str:
        """What a server says that does not start: one message, and no traceback."""
        done = subprocess.run(
            [sys.executable, str(SERVER), "serve", "--port", "0", *options], env=self._serve_env(),
            cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert (1, 1) == (done.returncode, said.count("tasuki: ")), said
        assert "Traceback" not in said, said
        return said

    def _serve_env(self) -> dict[str, str]:
        """The environment of a server: the URL of its database may have a password."""
        url = {"TASUKI_DATABASE_URL": self.database_url} if self.database_url else {}
        return {**self.env, **url}

    @property
    def reached(self) -> Path:
        """The file that says that the point was reached."""
        return self.folder / "reached"

    def _answers(self) -> bool:
        assert self.server
        assert self.server.poll() is None, self.output.read_text()[-3000:]
        try:
            return bool(self.health())
        except (OSError, Refused):
            return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the server, by default without any warning."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(number)
            self.server.wait(20)

    def kill_at_point(self, seconds: float = 60.0) -> str:
        """Kill the server where it was told to stop; where that was."""
        try:
            retry_until(self.reached.exists, seconds)
        except AssertionError:
            raise AssertionError(self.output.read_text()[-3000:]) from None
        self.kill()
        return self.reached.read_text()

    # -- its API -----------------------------------------------------------------------

    def api(self, method: str, path: str, body: Any = None, *, token: bool = True) -> Any:
        """Call the API; its answer. Raises Refused."""
        request = urllib.request.Request(f"http://{self.address()}{path}", method=method)
        if token:
            known = (self.data / "fleet" / "token").read_text().strip()
            request.add_header("Authorization", f"Bearer {known}")
        if body is not None or method == "POST":
            request.data = json.dumps(body or {}).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raw = error.read()
            try:
                told = json.loads(raw)
            except ValueError:
                told = raw
            raise Refused(error.code, told) from None

    def health(self) -> str:
        """What `/health` says: `ok`, or why it is not."""
        try:
            return str(self.api("GET", "/health", token=False)["status"])
        except Refused as refused:
            if refused.status != 503:
                raise
            return str(refused.body["why"])

    def address(self) -> str:
        """Where the server listens."""
        file = self.data / "fleet" / "address"
        if file.exists():
            self._address = file.read_text().splitlines()[0]
        return self._address

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.address().rpartition(":")[2])

    def link(self) -> str:
        """A link that signs a browser in to the dashboard, once."""
        return str(self.api("POST", "/api/login")["link"])

    def origin(self) -> str:
        """Where browsers open the dashboard: `http://tasuki-….localhost:8787`."""
        return self.link().rpartition("/login")[0]

    def handoff(self, id: str) -> Any:
        """A handoff as the API tells it."""
        return self.api("GET", f"/api/handoffs/{id}")

    def agent(self, id: int) -> Any:
        """An agent as the API tells it."""
        return self.api("GET", f"/api/agents/{id}")

    def persona(self, skill: str = SKILL) -> str:
        """A persona; its slug."""
        made = self.api(
            "POST", "/api/personas", {"role": "developer", "name": "con", "skill": skill}
        )
        return str(made["slug"])

    def named_persona(self, name: str) -> str:
        """A persona of this name; its slug."""
        made = self.api(
            "POST", "/api/personas", {"role": "developer", "name": name, "skill": SKILL}
        )
        return str(made["slug"])

    def started(self, **values: Any) -> int:
        """An agent of a new persona that registered and is idle; its id."""
        given = {"harness": "claude", "cwd": str(self.work), **values}
        if "persona" not in given:
            given["persona"] = self.persona()
        made = self.api("POST", "/api/agents", given)
        return self.idle(made["id"])

    def idle(self, id: int, seconds: float = 30.0) -> int:
        """The agent's id once it is idle."""
        retry_until(lambda: self.agent(id)["state"] == "idle" or None, seconds, 0.1)
        return id

    def worked(self, id: int, text: str = "Fix the upload client") -> int:
        """The agent once it took a turn, so that it has a thread."""
        self.api("POST", f"/api/agents/{id}/send", {"text": text})
        retry_until(
            lambda: (
                self.agent(id)["thread"]
                and get_containing_file(Path(self.agent(id)["thread"])).exists()
            )
        )
        return self.idle(id)

    def hand_off(self, agent: int, **body: Any) -> str:
        """Begin a handoff; its id."""
        answer = self.api(
            "POST", f"/api/agents/{agent}/handoff", {"reason": "context_limit", **body}
        )
        assert answer["status"] == "initiated", answer
        return str(answer["id"])

    def failed(self, id: str, state: str = "failed") -> str:
        """The name of the failure of a handoff, once it has failed."""
        return str(self.ends(id, state)["failure"]["code"])

    def log(self) -> list[Any]:
        """The lines of the log."""
        return list(self.api("GET", "/api/log?after=0&limit=1000")["events"])

    def alarms(self) -> list[Any]:
        """The alarms in the log."""
        return [line for line in self.log() if line["kind"] == "alarm"]

    def ends(self, id: str, state: str = "done", seconds: float = 60.0) -> Any:
        """A handoff once it is no longer under way; AssertionError where it ended in another state."""
        retry_until(lambda: self.handoff(id)["state"] != "running", seconds, 0.2)
        found = self.handoff(id)
        assert found["state"] == state, (
            found["state"],
            found["failure"],
            self.output.read_text()[-2000:],
        )
        return found

    # -- the database ------------------------------------------------------------------

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement in the fleet's database; the rows."""
        database = FleetDatabase(self.database_url or build_sqlite_url(self.data / "fleet.db"))
        try:
            with database.write() as connection:
                done = connection.execute(sa.text(statement))
                return [dict(row) for row in done.mappings()] if done.returns_rows else []
        finally:
            database.close()

    def agent_rows(self) -> list[dict[str, Any]]:
        """The agents, while no server answers."""
        return self.sql("SELECT * FROM agents ORDER BY id")

    # -- what the harness itself saw ---------------------------------------------------

    def seen(self, kind: str, **values: Any) -> list[dict[str, Any]]:
        """Lines of the scripted harness's own journal, of one kind and with these values."""
        try:
            lines = [json.loads(line) for line in self.journal.read_text().splitlines()]
        except FileNotFoundError:
            return []
        return [
            x for x in lines if x["kind"] == kind and all(x.get(k) == v for k, v in values.items())
        ]

    def prompts(self, words: str) -> list[dict[str, Any]]:
        """Prompts that were submitted to an agent and hold some words."""
        return [x for x in self.seen("prompt") if words in x["text"]]

    def close(self) -> None:
        """End everything that this test started."""
        self.kill()
        self.tmux("kill-server", check=False)
        shutil.rmtree(self.sockets, ignore_errors=True)


def world_at(worlds: ExitStack, folder: Path, url: str = "", name: str = "") -> World:
    """A fleet in a folder of its own, on a machine of some name; ended with `worlds`."""
    folder.mkdir(exist_ok=True)
    made = World(folder, url)
    worlds.callback(made.close)
    made.env["FLEET_HOST_NAME"] = name
    return made


def once(world: World, of: Any) -> None:
    """Assert what a handoff must leave behind whatever happened: everything once, nothing lost."""
    instructions = world.prompts("Write a handoff document for it now")
    injections = world.prompts("Begin your answer with this line")
    started = [x["session"] for x in world.seen("started")]
    assert len(instructions) == 1, instructions
    assert len(injections) == 1, injections
    assert len(set(started)) == len(started) == 2, started
    assert instructions[0]["session"] == started[0]
    assert injections[0]["session"] == started[1]
    assert Path(of["file_path"]).read_text().strip()
    assert len(world.seen("exit", session=started[0])) == 1


def lines(text: str, words: Sequence[str]) -> list[str]:
    """The lines of a text that hold some words."""
    return [line for line in text.splitlines() if all(word in line for word in words)]


def refusal(world: World, path: str, body: Any = None) -> tuple[int, str]:
    """Status and sentence with which the API refuses."""
    try:
        told = world.api("POST", path, {"reason": "context_limit"} if body is None else body)
    except Refused as refused:
        return refused.status, refused.body["error"]
    raise AssertionError(f"not refused: {told}")


def document_rule(**more: Any) -> dict[str, Any]:
    """A rule that writes the document where it is asked for."""
    return {
        "match": DOCUMENT,
        "do": [["document", "{path}"], ["say", "written"]],
        "ignore_enter": 1,
        **more,
    }
