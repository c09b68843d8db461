"""Caddy in front of a server, as `docs/outside-access.md` sets it up: TLS of its own authority, as another user."""

import getpass
import http.client
import os
import pwd
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tree import ROOT
from waiting import retry_until
from web_servers import Served, serving

from tasuki.config.settings import Settings

NAME = "fleet.localhost"
ACCOUNT = "nobody" if os.getuid() else "daemon"
"""Under root Caddy runs as this system user, else as the test's own."""
PASSWORD = "a word for ann"
PLAIN = "\treverse_proxy UPSTREAM"
"""The body of a site that passes everything on."""
_GLOBAL = """{{
	admin off
	skip_install_trust
	auto_https disable_redirects
	http_port {http}
	https_port {https}
}}
"""


def missing() -> str:
    """Why Caddy cannot be run; empty where it can."""
    if os.getuid() == 0 and not shutil.which("setpriv"):
        return "setpriv is not installed"
    return "" if find_program() else "caddy is not installed"


def find_program() -> str | None:
    """Caddy on the PATH, else the one that `scripts/setup` took out of Debian's package."""
    taken = (
        Path(os.environ.get("TASUKI_TEST_CACHE") or ROOT / ".cache")
        / "caddy"
        / "usr"
        / "bin"
        / "caddy"
    )
    return shutil.which("caddy") or (str(taken) if taken.is_file() else None)


def get_account() -> str:
    """The system user that Caddy runs as."""
    return ACCOUNT if os.getuid() == 0 else getpass.getuser()


def find_free_port() -> int:
    """A port that nobody listens on now; none of those that the system gives to whoever asks for any."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def hash_password(password: str = PASSWORD) -> str:
    """What `basicauth` compares a password with."""
    done = subprocess.run(
        [str(find_program()), "hash-password", "--plaintext", password], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    )  # fmt: skip
    return done.stdout.strip()


class Caddy:
    """A running Caddy: its public port, and requests that a browser would send it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.origin = f"https://{NAME}:{port}"
        self.log = folder / "log"

    def connect(self) -> http.client.HTTPSConnection:
        """A connection to it, whose certificate is checked."""
        root = self.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        context = ssl.create_default_context(cafile=str(root))
        connection = http.client.HTTPSConnection(NAME, self.port, timeout=30, context=context)
        connection._create_connection = lambda _, *rest: socket.create_connection(  # type: ignore[attr-defined]
            ("127.0.0.1", self.port), *rest
        )
        return connection

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], str]:  # fmt: skip
        """The status, the headers and the text of an answer."""
        connection = self.connect()
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            content = answer.read().decode("utf-8", "replace")
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, content
        finally:
            connection.close()

    def answers(self) -> bool:
        """Whether it has its certificate and listens."""
        with suppress(OSError, ssl.SSLError, http.client.HTTPException):
            return self.ask("GET", "/health")[0] > 0
        return False


@contextmanager
def caddy(folder: Path, port: int, upstream: str, site: str) -> Iterator[Caddy]:
    """Caddy on a loopback port; `site` is the body of its site, in which UPSTREAM is the server."""
    folder.mkdir(mode=0o755)
    text = _GLOBAL.format(http=find_free_port(), https=port) + (
        f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls internal\n{site.replace('UPSTREAM', upstream)}\n}}\n"
    )
    (folder / "Caddyfile").write_text(text)
    command = [
        str(find_program()),
        "run",
        "--config",
        str(folder / "Caddyfile"),
        "--adapter",
        "caddyfile",
    ]
    if os.getuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
        command = [
            "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *command
        ]  # fmt: skip
    made = Caddy(folder, port)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}  # fmt: skip
    with made.log.open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            retry_until(lambda: process.poll() is not None or made.answers(), 20)
            assert process.poll() is None, made.log.read_text()
            yield made
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def make_folder() -> Iterator[Path]:
    """A folder that another system user can reach, removed at the end."""
    made = Path(tempfile.mkdtemp(prefix="tasuki-caddy-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def behind_caddy(
    folder: Path, site: str = PLAIN, **settings: str
) -> Iterator[tuple[Served, Caddy]]:
    """A server, and Caddy in front of it."""
    port = find_free_port()
    chosen = Settings(public_url=f"https://{NAME}:{port}", **settings)
    with (
        serving(folder / "tasuki", settings=chosen) as served,
        caddy(folder / "caddy", port, served.host, site) as proxy,
    ):
        yield served, proxy
