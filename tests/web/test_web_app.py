"""The dashboard as an application of its own: its manifest, and the way back after signing in."""

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
from web_servers import Answer, Served, serving

from tasuki.config.settings import Settings
from tasuki.fleet.orders.bodies import NewAgent, QuestionAnswer
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.interpreter import PREPARED

NAME = "fleet.example.com"
ANN = "ann@example.com"
VISIT = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


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


def test_the_manifest_needs_no_session(served: Served) -> None:
    """It comes as what it is, is asked for anew each time, and says nothing about the fleet."""
    manifest = served.ask("GET", "/manifest.webmanifest", token="", Host=served.site)

    assert (manifest.status, manifest.headers["content-type"]) == (200, "application/manifest+json")
    assert json.loads(manifest.body)["scope"] == "/"
    assert manifest.headers["cache-control"] == "no-cache"
    assert records.SLUG.encode() not in manifest.body


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
