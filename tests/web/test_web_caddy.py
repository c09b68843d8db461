"""A browser's way through a real Caddy: TLS, the link, the cookie, forms, live events, the user that it names."""

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from caddy import (
    NAME,
    PASSWORD,
    PLAIN,
    Caddy,
    behind_caddy,
    get_account,
    hash_password,
    make_folder,
    missing,
)  # fmt: skip
from waiting import retry_until
from web_servers import Served

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "caddy is there")
COMPRESSED = "\tencode gzip zstd\n\treverse_proxy UPSTREAM"
NAMING = """	basicauth {{
		ann {hash}
		bob {hash}
	}}
	reverse_proxy UPSTREAM {{
		header_up Remote-User {{http.auth.user.id}}
	}}"""
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another system user can reach."""
    with make_folder() as made:
        yield made


def sign_in(served: Served, proxy: Caddy) -> str:
    """The cookie of a browser that opened the link."""
    link = served.ask("POST", "/api/login").json["link"]
    assert link.startswith(f"{proxy.origin}/login?key=")
    status, headers, _ = proxy.ask("GET", link.removeprefix(proxy.origin))
    assert status == 200
    assert {"Secure", "HttpOnly"} <= set(headers["set-cookie"].split("; "))
    return headers["set-cookie"].partition(";")[0]


def read_event(answer: http.client.HTTPResponse, wanted: bytes) -> bytes:
    """The first line of a stream in which this is found."""
    while line := answer.readline():
        if wanted in line:
            return line
    return b""


def basic(user: str, password: str = PASSWORD) -> str:
    """What a browser sends after its user typed a name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_browser_signs_in_through_caddy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link, the cookie over many requests, a form, its foreign origin refused, signing out."""
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    with behind_caddy(folder, PLAIN) as (served, proxy):
        before = proxy.ask("GET", "/")[0]
        cookie = sign_in(served, proxy)
        pages = [proxy.ask("GET", path, Cookie=cookie)[0] for path in ("/", "/settings", "/alerts")]

        def send(origin: str) -> int:
            return proxy.ask("POST", "/settings/threshold", b"context_threshold=70", Cookie=cookie, Origin=origin, Content_Type=FORM)[0]  # fmt: skip

        forms = [send(proxy.origin), send("https://evil.example"), send(f"http://{NAME}")]
        api = [proxy.ask("GET", "/api/agents")[0], proxy.ask("GET", "/api/agents", Authorization=f"Bearer {served.tokens.operator}")[0]]  # fmt: skip
        forged = proxy.ask("GET", "/", X_Forwarded_Host="127.0.0.1", Remote_User="ann")[0]
        left = proxy.ask("POST", "/logout", b"", Cookie=cookie, Origin=proxy.origin, Content_Type=FORM)[0]  # fmt: skip
        after = proxy.ask("GET", "/", Cookie=cookie)[0]

    assert (before, pages, forms) == (401, [200, 200, 200], [303, 403, 403])
    assert (api, forged, left, after) == ([401, 200], 401, 200, 401)
    assert "context_threshold = 70" in (tmp_path / "config.toml").read_text()


@pytest.mark.parametrize("site", [PLAIN, COMPRESSED], ids=["plain", "compressed"])
def test_live_events_arrive_at_once(folder: Path, site: str) -> None:
    """A page's stream and the log's, while both are open: nothing waits in the proxy."""
    with behind_caddy(folder, site) as (served, proxy):
        cookie = sign_in(served, proxy)
        page, log = proxy.connect(), proxy.connect()
        page.request("GET", "/live?page=fleet&after=0", headers={"Cookie": cookie})
        log.request("GET", "/api/events", headers={"Authorization": f"Bearer {served.tokens.operator}"})  # fmt: skip
        streams = [page.getresponse(), log.getresponse()]
        begun = [stream.readline() for stream in streams]
        retry_until(lambda: served.pages.streams and served.live.streams)
        for stream in tuple(served.pages.streams):
            stream.put(b"event: alert\ndata: for the page\n\n")
        served.fleet.note("alarm", "for the log")
        found = [read_event(streams[0], b"for the page"), read_event(streams[1], b"for the log")]
        page.close()
        log.close()
        retry_until(lambda: not served.pages.streams)

    assert [stream.getheader("content-type") for stream in streams] == ["text/event-stream; charset=utf-8"] * 2  # fmt: skip
    assert all(line.startswith(b"retry:") for line in begun)
    assert found[0] == b"data: for the page\n"
    assert json.loads(found[1][6:])["text"] == "for the log"


AUTHORIZING = """	route {{
		request_header -Remote-User
		forward_auth 127.0.0.1:{port} {{
			uri /who
			copy_headers Remote-User
		}}
		reverse_proxy UPSTREAM
	}}"""


class _Authorizing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        user = (self.headers["cookie"] or "").partition("who=")[2]
        self.send_response(200 if user else 403)
        if user and user != "unnamed":
            self.send_header("Remote-User", user)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def authority() -> Iterator[int]:
    """The port of a program that knows a user by a cookie, and lets one in whom it does not name."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Authorizing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(10)


def test_another_program_names_the_user(folder: Path, authority: int) -> None:
    """With forward_auth, as the docs have it: what a browser claims never arrives."""
    site = AUTHORIZING.format(port=authority)
    settings = {"proxy": f"user:{get_account()}", "proxy_user_header": "Remote-User", "proxy_users": "ann"}  # fmt: skip
    with behind_caddy(folder, site, **settings) as (_, proxy):
        ann = proxy.ask("GET", "/settings/server", Cookie="who=ann")
        statuses = [
            proxy.ask("GET", "/", Remote_User="ann")[0],
            proxy.ask("GET", "/", Cookie="who=bob", Remote_User="ann")[0],
            proxy.ask("GET", "/", Cookie="who=unnamed", Remote_User="ann")[0],
        ]

    assert (ann[0], "Signed in as <b>ann</b> by the proxy." in ann[2]) == (200, True)
    assert statuses == [403, 401, 401]


@pytest.mark.long
def test_the_user_whom_caddy_names_is_signed_in(folder: Path) -> None:
    """By the password that Caddy asks for; another user is told who it is, and no client names one itself."""
    site = NAMING.format(hash=hash_password())
    settings = {"proxy": f"user:{get_account()}", "proxy_user_header": "Remote-User", "proxy_users": "ann"}  # fmt: skip
    with behind_caddy(folder, site, **settings) as (served, proxy):
        nobody = proxy.ask("GET", "/")[0]
        ann = proxy.ask("GET", "/settings/server", Authorization=basic("ann"))
        bob = proxy.ask("GET", "/", Authorization=basic("bob"), Remote_User="ann")
        smuggled = proxy.connect()
        smuggled.putrequest("GET", "/")
        for name, value in (
            ("Authorization", basic("bob")),
            ("Remote_User", "ann"),
            ("REMOTE-USER", "ann"),
            ("Remote-User", "ann"),
        ):
            smuggled.putheader(name, value)
        smuggled.endheaders()
        twice = smuggled.getresponse()
        twice.read()
        smuggled.close()
        form = proxy.ask("POST", "/alerts/seen", b"up_to=0", Authorization=basic("ann"), Origin=proxy.origin, Content_Type=FORM)  # fmt: skip
        direct = served.ask("GET", "/", token="", Host=f"{NAME}:{proxy.port}", Remote_User="ann")
        stream = proxy.connect()
        stream.request("GET", "/live?page=fleet&after=0", headers={"Authorization": basic("ann")})
        begun = stream.getresponse().readline()
        stream.close()

    assert nobody == 401
    assert (ann[0], "Signed in as <b>ann</b> by the proxy." in ann[2]) == (200, True)
    assert (bob[0], "The proxy signed you in as bob" in bob[2]) == (401, True)
    assert twice.status == 401
    assert (form[0], form[1]["location"]) == (303, "/alerts")
    assert direct.status == (401 if get_account() != "root" else 200)
    assert begun.startswith(b"retry:")


@pytest.mark.parametrize(
    ("line", "status"), [("", 200), ("header_up -Remote-User", 401)], ids=["passed", "removed"]
)
def test_a_proxy_has_to_set_the_header_itself(folder: Path, line: str, status: int) -> None:
    """Caddy passes on what a client sends: one that neither sets nor removes it lets the client choose."""
    site = f"\treverse_proxy UPSTREAM {{\n\t\t{line}\n\t}}"
    settings = {"proxy": f"user:{get_account()}", "proxy_user_header": "Remote-User", "proxy_users": "ann"}  # fmt: skip
    with behind_caddy(folder, site, **settings) as (_, proxy):
        assert proxy.ask("GET", "/", Remote_User="ann")[0] == status
