"""The fleet's HTTP application on a port of its own, and a plain client for it."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shared_routes  # noqa: F401
import uvicorn
from databases import copy_tables
from waiting import retry_until

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet.hosts import HOSTS_FILE, identify_host
from tasuki.fleet.service import Fleet, open_fleet
from tasuki.fleet.store import schema
from tasuki.web.application import create_application
from tasuki.web.connections import ConnectionLimits, limit_protocol
from tasuki.web.live import LogStreams
from tasuki.web.security.access import ServerTokens, load_tokens
from tasuki.web.security.sessions import BrowserSessions
from tasuki.web.server import listen


class Answer:
    """What the server said."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error."""
        return str(self.json["error"])


class Served:
    """A fleet, its tokens, and where it is served."""

    def __init__(
        self,
        fleet: Fleet,
        secrets: ServerTokens,
        live: LogStreams,
        port: int,
        sessions: BrowserSessions,
    ) -> None:
        self.fleet = fleet
        self.sessions = sessions
        self.live = live
        self.tokens = secrets
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.site = f"{secrets.dashboard_host}:{port}"
        """Under which browsers open the pages."""
        self.origin = f"http://{self.site}"

    @property
    def link(self) -> str:
        """A new link that signs a browser in, once."""
        return f"{self.origin}/login?key={self.sessions.keys.make_key().key}"

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> Answer:
        """One request; `token` is the operator's where none is given, "" for none."""
        host = self.site if "Cookie" in headers else self.host
        given = {"Host": host, **{name.replace("_", "-"): v for name, v in headers.items()}}
        token = self.tokens.operator if token is None else token
        if token:
            given.setdefault("Authorization", f"Bearer {token}")
        content = body
        if body is not None and not isinstance(body, bytes):
            content = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, content, given)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    @contextmanager
    def stream(self, query: str = "", **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The live events, as they come: those that have data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Authorization": f"Bearer {self.tokens.operator}", **headers}
        connection.request("GET", f"/api/events{query}", headers=given)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        first = answer.readline()
        assert first.startswith(b"retry:")
        try:
            yield _events(answer)
        finally:
            answer.close()
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    id = ""
    while line := answer.readline():
        if line.startswith(b"id: "):
            id = line[4:].decode().strip()
        elif line.startswith(b"data: "):
            yield {"last_id": id, **json.loads(line[6:])}


def be_host(data: Path, id: str = "h") -> None:
    """Let a folder of a server's own files be that of a host: "h", whose rows tests write."""
    data.mkdir(parents=True, exist_ok=True)
    own = identify_host(data).id
    path = data / HOSTS_FILE
    path.write_text(path.read_text().replace(own, id))


@contextmanager
def serving(
    folder: Path, url: str = "", host: str = "127.0.0.1", settings: Settings | None = None
) -> Iterator[Served]:
    """A fleet whose tables are there and whose hooks are taken in; no handoff is carried out."""
    be_host(folder / "fleet")
    if not url and not (folder / "fleet.db").exists():
        copy_tables(folder / "fleet.db")
    fleet = open_fleet(folder / "fleet", url, LoadedSettings(settings or Settings()))
    schema.create_tables(fleet.database)
    fleet.intake.start()
    secrets = load_tokens(folder / "fleet")
    app = create_application(fleet, secrets, host)
    protocol = limit_protocol(ConnectionLimits())
    config = uvicorn.Config(
        app, log_config=None, timeout_graceful_shutdown=1, http=protocol, proxy_headers=False
    )
    server = uvicorn.Server(config)
    with listen(host, 0) as sockets:
        thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
        thread.start()
        retry_until(lambda: server.started)
        port = sockets[0].getsockname()[1]
        try:
            served = Served(fleet, secrets, app.state.live, port, app.state.sessions)
            served.pages = app.state.live_pages
            yield served
        finally:
            server.should_exit = True
            thread.join(10)
            fleet.changes.close()
            fleet.intake.close(5)
            fleet.database.close()
