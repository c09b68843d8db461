"""Access under a public name: which requests are taken there, what their cookies are, and where links lead."""

import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_servers import Answer, Served, serving

from tasuki.config.outside import PublicAddress, parse_public_url
from tasuki.config.settings import Settings
from tasuki.web.security.access import ServerHosts

PUBLIC = "https://fleet.example.com"
NAME = "fleet.example.com"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a public name, for all tests of this file."""
    with serving(tmp_path_factory.mktemp("web"), settings=Settings(public_url=PUBLIC)) as made:
        yield made


def sign_in(served: Served, host: str = NAME) -> Answer:
    """The answer to a link that is opened under a name."""
    link = served.ask("POST", "/api/login").json["link"]
    return served.ask("GET", "/login" + link.partition("/login")[2], token="", Host=host)


def get_cookie(answer: Answer) -> str:
    """The cookie as a browser sends it back."""
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("host", [NAME, "FLEET.Example.COM", f"{NAME}:443"])
def test_the_public_name_is_known(served: Served, host: str) -> None:
    """In any case, with the usual port or without."""
    assert served.ask("GET", "/health", token="", Host=host).status == 200


@pytest.mark.parametrize(
    "host", [f"{NAME}.", f"{NAME}:80", f"{NAME}:8443", f"{NAME}:", f"{NAME}:0443", f"x.{NAME}", f"{NAME}.evil.example",
             f"{NAME}:443:443", f"{NAME}@evil.example", f"[{NAME}]", "example.com"],
)  # fmt: skip
def test_a_name_like_the_public_one_is_refused(served: Served, host: str) -> None:
    """Another port, a dot at the end, a longer name: none of them is the public name."""
    got = served.ask("GET", "/health", token="", Host=host)

    assert got.status == 421
    assert "a proxy must pass on the `Host` of public_url, with its port" in got.error


@pytest.mark.parametrize("host", [f"evil.example, {NAME}", f"{NAME}\xa0", f"{NAME} evil.example"])
def test_a_host_that_is_no_name_is_refused(served: Served, host: str) -> None:
    """What no client writes into the header is refused at one of two places."""
    assert served.ask("GET", "/health", token="", Host=host).status in (400, 421)


def test_without_a_public_name_no_proxy_is_served(tmp_path: Path) -> None:
    """The refusal says which setting is missing."""
    with serving(tmp_path) as served:
        got = served.ask("GET", "/health", token="", Host=NAME)

    assert got.status == 421
    assert "behind a proxy set public_url" in got.error


def test_a_port_is_part_of_the_public_name(tmp_path: Path) -> None:
    """With another port than 443 a `Host` without it is refused, and the origin has it."""
    with serving(tmp_path, settings=Settings(public_url=f"{PUBLIC}:8443")) as served:
        known = served.ask("GET", "/api/agents", Host=f"{NAME}:8443", Origin=f"{PUBLIC}:8443")
        others = [served.ask("GET", "/health", Host=host).status for host in (NAME, f"{NAME}:443")]
        foreign = served.ask("GET", "/api/agents", Host=f"{NAME}:8443", Origin=PUBLIC)

    assert (known.status, others, foreign.status) == (200, [421, 421], 403)


def test_forwarded_headers_are_not_believed(served: Served) -> None:
    """No `X-Forwarded-…` names a host, a scheme, or an address that is trusted."""
    forwarded = {"X_Forwarded_Host": NAME, "X_Forwarded_Proto": "https", "X_Forwarded_For": "127.0.0.1", "Forwarded": f"host={NAME};proto=https"}  # fmt: skip
    foreign = served.ask("GET", "/health", token="", Host="evil.example", **forwarded)
    local = served.ask("GET", "/api/agents", Origin=PUBLIC, **forwarded)
    behind = sign_in(served).headers["set-cookie"]
    said = served.ask("GET", "/health", token="", Host=NAME, X_Forwarded_Host="evil.example", X_Forwarded_Proto="http")  # fmt: skip

    assert (foreign.status, local.status, said.status) == (421, 403, 200)
    assert "Secure" in behind


def test_two_hosts_are_refused(served: Served) -> None:
    """A proxy and the server could take different ones."""
    statuses = []
    for first, second in ((NAME, "evil.example"), ("evil.example", NAME), (NAME, served.host)):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        connection.putrequest("GET", "/login", skip_host=True)
        connection.putheader("Host", first)
        connection.putheader("Host", second)
        connection.endheaders()
        statuses.append(connection.getresponse().status)
        connection.close()

    assert statuses == [400, 400, 400]


@pytest.mark.parametrize(
    "origin", [f"http://{NAME}", f"{PUBLIC}:443", f"{PUBLIC}:8443", f"{PUBLIC}.", f"{PUBLIC}/", "https://evil.example",
               "https://x.fleet.example.com", "null", "https://", f"{PUBLIC}, https://evil.example"],
)  # fmt: skip
def test_another_origin_is_refused_under_the_public_name(served: Served, origin: str) -> None:
    """A page of any other address may not ask, nor send a form, with the right cookie too."""
    cookie = get_cookie(sign_in(served))
    asked = served.ask("GET", "/api/agents", Host=NAME, Origin=origin)
    sent = served.ask("POST", "/settings/threshold", b"context_threshold=70", token="", Host=NAME, Cookie=cookie, Origin=origin, Content_Type=FORM)  # fmt: skip

    assert (asked.status, sent.status) == (403, 403)
    assert asked.error == "Pages of another origin may not ask this server."


def test_a_form_is_taken_under_the_public_name(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # fmt: skip
    """With the cookie and its own origin alone: neither without an origin, nor with that of local pages."""
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    cookie = get_cookie(sign_in(served))

    def send(**headers: str) -> int:
        return served.ask("POST", "/settings/threshold", b"context_threshold=70", token="", Host=NAME, Cookie=cookie, Content_Type=FORM, **headers).status  # fmt: skip

    assert send(Origin=PUBLIC) == 303
    assert (tmp_path / "config.toml").read_text() == "context_threshold = 70\n"
    assert send(Origin=PUBLIC.upper()) == 303
    assert send() == 403
    assert send(Origin=served.origin) == 403
    assert served.ask("POST", "/settings/threshold", b"context_threshold=70", token="", Cookie=cookie, Origin=PUBLIC, Content_Type=FORM).status == 403  # fmt: skip


def test_the_public_cookie_is_secure(served: Served) -> None:
    """Its prefix makes browsers keep it from other hosts and from unencrypted requests; local ones stay plain."""
    public, local = sign_in(served), sign_in(served, served.site)
    given = public.headers["set-cookie"].split("; ")

    assert given[0].startswith(f"__Host-tasuki-{served.tokens.instance}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Secure"} <= set(given)
    assert not re.search("Domain", public.headers["set-cookie"])
    assert "Secure" not in local.headers["set-cookie"]
    assert local.headers["set-cookie"].startswith(f"tasuki-{served.tokens.instance}=")


def test_each_name_reads_its_own_cookie(served: Served) -> None:
    """A cookie without the prefix, which another host of the domain could have set, counts for nothing."""
    public, local = get_cookie(sign_in(served)), get_cookie(sign_in(served, served.site))
    bare = public.removeprefix("__Host-")

    def ask(host: str, cookie: str) -> int:
        return served.ask("GET", "/", token="", Host=host, Cookie=cookie).status

    assert (ask(NAME, public), ask(served.site, local)) == (200, 200)
    assert (ask(NAME, bare), ask(NAME, local), ask(served.site, public)) == (401, 401, 401)
    assert ask(NAME, f"{bare}; {public}") == 200


def test_signing_out_takes_the_public_cookie(served: Served) -> None:
    """The cookie of that name ends, and so does the session."""
    cookie = get_cookie(sign_in(served))
    left = served.ask("POST", "/logout", b"", token="", Host=NAME, Cookie=cookie, Origin=PUBLIC, Content_Type=FORM)  # fmt: skip

    assert left.headers["set-cookie"].startswith(f"__Host-tasuki-{served.tokens.instance}=; ")
    assert {"Max-Age=0", "Secure"} <= set(left.headers["set-cookie"].split("; "))
    assert served.ask("GET", "/", token="", Host=NAME, Cookie=cookie).status == 401


def test_links_lead_to_the_public_name(served: Served) -> None:
    """The other link of the same key leads to this machine, also where it was asked for through the proxy."""
    made = served.ask("POST", "/api/login").json
    behind = served.ask("POST", "/api/login", Host=NAME).json

    assert made["link"].startswith(f"{PUBLIC}/login?key=")
    assert made["local_link"].startswith(f"{served.origin}/login?key=")
    assert made["link"].partition("?")[2] == made["local_link"].partition("?")[2]
    assert behind["local_link"].startswith(f"{served.origin}/login?key=")


def test_answers_lead_to_no_other_name(served: Served) -> None:
    """A redirect is a path: the browser stays under the name that it came by."""
    cookie = get_cookie(sign_in(served))
    got = served.ask("POST", "/alerts/seen", b"up_to=0", token="", Host=NAME, Cookie=cookie, Origin=PUBLIC, Content_Type=FORM)  # fmt: skip

    assert got.status == 303
    assert re.fullmatch(r"/[^/].*|/", got.headers["location"])


def test_the_api_needs_the_token_under_the_public_name(served: Served) -> None:
    """A session opens pages, and nothing of the API; the token opens it there as elsewhere."""
    cookie = get_cookie(sign_in(served))

    assert served.ask("GET", "/api/agents", token="", Host=NAME, Cookie=cookie).status == 401
    assert served.ask("GET", "/api/agents", Host=NAME).status == 200


def test_local_access_stays(served: Served) -> None:
    """The own name has its pages, shared names have none."""
    cookie = get_cookie(sign_in(served, served.site))

    assert served.ask("GET", "/", token="", Host=served.site, Cookie=cookie).status == 200
    assert served.ask("GET", "/", token="", Host=served.host, Cookie=cookie).status == 401


def test_a_public_name_that_is_listened_on_too() -> None:
    """The public address has its origin, the same name with the server's own port that of http."""
    hosts = ServerHosts("tower.local", "tasuki-x.localhost", PublicAddress("tower.local"))

    assert hosts.build_origin("tower.local") == "https://tower.local"
    assert hosts.build_origin("Tower.local:8787") == "http://tower.local:8787"


def test_public_addresses() -> None:
    """The usual port is left out of the origin, and a slash at the end is no path."""
    found = [parse_public_url(f"https://Fleet.example.com{end}") for end in ("", "/", ":443", ":8443/")]  # fmt: skip

    assert [one.origin for one in found] == [PUBLIC, PUBLIC, PUBLIC, f"{PUBLIC}:8443"]
