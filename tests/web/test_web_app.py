"""The dashboard as an application of its own: manifest, service worker, subscriptions, and the way back after signing in."""

import getpass
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import fleet_records as records
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from visitors import Visitor
from web_servers import Answer, Served, serving

from tasuki.config.settings import Settings
from tasuki.fleet.push.encryption import CURVE, decode_text, encode_point, encode_text, load_point
from tasuki.fleet.push.subscriptions import list_subscriptions
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.interpreter import PREPARED
from tasuki.web.api.bodies import NewAgent, QuestionAnswer

NAME = "fleet.example.com"
ANN = "ann@example.com"
FORM = "application/x-www-form-urlencoded"
VISIT = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system tells no owner of a socket")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one agent and a public name, whose proxy is a program of this test's own user."""
    settings = Settings(
        public_url=f"https://{NAME}", proxy=f"user:{getpass.getuser()}", proxy_user_header="X-Forwarded-Email", proxy_users=ANN
    )  # fmt: skip
    with serving(tmp_path, settings=settings) as made:
        records.persona(made.fleet.database)
        records.agent(made.fleet.database, persona=records.SLUG, host=made.fleet.host)
        yield made


def fields(**changes: str) -> bytes:
    """What a browser sends to subscribe."""
    public = encode_text(encode_point(ec.generate_private_key(CURVE).public_key()))
    given = {
        "endpoint": "https://push.example/1",
        "public_key": public,
        "secret": encode_text(os.urandom(16)),
    }
    return urlencode({**given, **changes}).encode()


def ask(served: Served, path: str, body: bytes | None = None, user: str = ANN) -> Answer:
    """A request as the proxy passes it on."""
    form = (
        {"Content_Type": FORM, "Origin": f"https://{NAME}", "HX_Request": "true"}
        if body is not None
        else {}
    )
    return served.ask(
        "POST" if body is not None else "GET", path, body, token="", Host=NAME, X_Forwarded_Email=user, **form
    )  # fmt: skip


def test_manifest_and_worker_need_no_session(served: Served) -> None:
    """Both come as what they are, are asked for anew each time, and say nothing about the fleet."""
    manifest = served.ask("GET", "/manifest.webmanifest", token="", Host=served.site)
    worker = served.ask("GET", "/sw.js", token="", Host=served.site)

    assert (manifest.status, manifest.headers["content-type"]) == (200, "application/manifest+json")
    assert json.loads(manifest.body)["scope"] == "/"
    assert (worker.status, worker.headers["content-type"]) == (
        200,
        "text/javascript; charset=utf-8",
    )
    assert manifest.headers["cache-control"] == worker.headers["cache-control"] == "no-cache"
    assert b'addEventListener("fetch"' not in worker.body
    assert "default-src 'none'" in worker.headers["content-security-policy"]
    assert records.SLUG.encode() not in manifest.body + worker.body


@linux
def test_a_browser_subscribes_under_the_public_name(served: Served) -> None:
    """It is told a key, subscribes, is known once, and ends that; a user who may not come gets nothing."""
    told = ask(served, "/settings/push").json
    load_point(decode_text(told["key"]))
    first, again = ask(served, "/settings/push", fields()), ask(served, "/settings/push", fields())
    known = list_subscriptions(served.fleet.database, served.fleet.host, [ANN])
    stranger = ask(
        served, "/settings/push", fields(endpoint="https://push.example/2"), user="eve@example.com"
    )
    ended = ask(
        served, "/settings/push/end", urlencode({"endpoint": "https://push.example/1"}).encode()
    )
    left = list_subscriptions(served.fleet.database, served.fleet.host, [ANN, "eve@example.com"])

    assert told["mark"] == ""
    assert (first.status, again.status, ended.status, stranger.status) == (200, 200, 200, 401)
    assert [(one.endpoint, one.proxy_user) for one in known] == [("https://push.example/1", ANN)]
    assert left == []
    assert (served.fleet.data / "push-key").stat().st_mode & 0o777 == 0o600


@linux
def test_what_is_no_subscription_is_refused(served: Served) -> None:
    """An address without HTTPS, keys that are none, a form of another origin: nothing is stored."""
    for changes in (
        {"endpoint": "http://127.0.0.1:22/"}, {"endpoint": "file:///etc/passwd"}, {"endpoint": ""},
        {"endpoint": "https://a/" + "x" * 2000}, {"public_key": "AAAA"}, {"secret": "x" * 300},
    ):  # fmt: skip
        assert ask(served, "/settings/push", fields(**changes)).status == 400, changes
    other = served.ask(
        "POST", "/settings/push", fields(), token="", Host=NAME, X_Forwarded_Email=ANN, Content_Type=FORM, Origin="https://evil.example",
    )  # fmt: skip

    assert other.status == 403
    assert list_subscriptions(served.fleet.database, served.fleet.host, [ANN, ""]) == []


def test_without_https_there_is_no_key(served: Served) -> None:
    """Under the local name a browser is told none, and none is made."""
    visitor = Visitor(served)

    assert visitor.get("/settings/push").json["key"] == ""
    assert not (served.fleet.data / "push-key").exists()


# -- the way back ----------------------------------------------------------------------


def sign_in(served: Served, cookie: str) -> Answer:
    """What a browser with a cookie is given behind a link."""
    path = served.sessions.keys.make_key().key
    return served.ask("GET", f"/login?key={path}", token="", Host=served.site, Cookie=cookie)


def test_a_browser_comes_back_to_the_page_that_it_wanted(served: Served) -> None:
    """The page is kept for ten minutes, only where it was visited, and forgotten once it is shown."""
    refused = served.ask("GET", "/agents/1", token="", Host=served.site, **VISIT)
    kept = refused.headers["set-cookie"]
    script = served.ask("GET", "/agents/1", token="", Host=served.site, Sec_Fetch_Dest="empty")
    page = sign_in(served, kept.partition(";")[0])

    assert refused.status == 401
    assert {"HttpOnly", "Max-Age=600", "SameSite=lax"} <= set(kept.split("; "))
    assert "set-cookie" not in script.headers
    assert 'content="0;url=/agents/1"' in page.body.decode()


@pytest.mark.parametrize(
    "value",
    [
        "//evil.example/x",
        "/%5Cevil.example",
        "https://evil.example",
        "/\t/evil.example",
        "%2F%2Fevil.example",
        "/login",
        "",
        "/%22%3E%3Cscript%3E",
    ],
)
def test_no_cookie_leads_elsewhere(served: Served, value: str) -> None:
    """Whatever a cookie says, the browser stays on this server, and nothing of it is markup."""
    page = sign_in(served, f"{served.sessions.cookie_name}-page={value}").body.decode()
    to = page.partition('content="0;url=')[2].partition('"')[0]

    assert to.startswith("/")
    assert not to.startswith(("//", "/\\", "/login"))
    assert "<script>" not in page.partition("</head>")[2]


def test_a_link_of_another_site_opens_its_page(served: Served) -> None:
    """Its browser sends no strict cookie, so the page continues as one of this server; a frame or a script does not."""
    site = {"Host": served.site, "Sec_Fetch_Site": "cross-site"}
    page = served.ask("GET", "/agents/1", token="", **site, **VISIT)
    frame = served.ask(
        "GET", "/agents/1", token="", **site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe"
    )
    own = served.ask(
        "GET", "/agents/1", token="", Host=served.site, Sec_Fetch_Site="same-origin", **VISIT
    )

    assert (page.status, frame.status, own.status) == (401, 401, 401)
    assert 'content="0;url=/agents/1"' in page.body.decode()
    assert "<h1>Sign in</h1>" in frame.body.decode()
    assert "<h1>Sign in</h1>" in own.body.decode()


def test_the_server_has_prepared_what_its_threads_convert(tmp_path: Path) -> None:
    """Two requests that are the first of their kind cannot crash it."""
    PREPARED.clear()
    with serving(tmp_path):
        assert {FleetAgent, FleetHandoff, NewAgent, QuestionAnswer} <= set(PREPARED)
