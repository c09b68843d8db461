"""Behind the headers of Tailscale Serve and of oauth2-proxy, as their documentation has them."""

import getpass
import http.client
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_proxies import OAUTH2_PROXY, TAILSCALE, ProxyHeaders, ScriptedProxy, scripted_proxy
from waiting import retry_until
from web_servers import Answer, Served, serving

from tasuki.config.settings import Settings

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the system tells no owner of a socket"),
    pytest.mark.parametrize(
        ("rules", "header"),
        [(TAILSCALE, "Tailscale-User-Login"), (OAUTH2_PROXY, "X-Forwarded-Email")],
        ids=["tailscale", "oauth2-proxy"],
    ),
]
NAME = "box.tail1234.ts.net"
PUBLIC = f"https://{NAME}"
ANN = "ann@example.com"


@pytest.fixture
def behind(tmp_path: Path, rules: ProxyHeaders, header: str) -> Iterator[tuple[Served, ScriptedProxy]]:  # fmt: skip
    """A server, and the proxy in front of it, which runs as this test's own user."""
    settings = Settings(public_url=PUBLIC, proxy=f"user:{getpass.getuser()}", proxy_user_header=header, proxy_users=ANN)  # fmt: skip
    with (
        serving(tmp_path, settings=settings) as served,
        scripted_proxy(served.port, rules) as proxy,
    ):
        yield served, proxy


def ask(proxy: ScriptedProxy, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:  # fmt: skip
    """A request of a browser that opened the public name."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Host": NAME, **given})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_its_user_opens_pages_and_sends_forms(behind: tuple[Served, ScriptedProxy]) -> None:
    """And nobody else: not whom the browser claims to be, nor one who is not signed in there."""
    _, proxy = behind
    claims = {"Tailscale_User_Login": ANN, "X_Forwarded_Email": ANN, "X_Forwarded_Host": "evil.example"}  # fmt: skip
    without = ask(proxy, "GET", "/", **claims).status
    proxy.user = "bob@example.com"
    other = ask(proxy, "GET", "/", **claims)
    proxy.user = ANN
    page = ask(proxy, "GET", "/settings/server", **claims)
    form = ask(proxy, "POST", "/alerts/seen", b"up_to=0", Origin=PUBLIC, Content_Type="application/x-www-form-urlencoded")  # fmt: skip
    foreign = ask(proxy, "POST", "/alerts/seen", b"up_to=0", Origin="https://evil.example", Content_Type="application/x-www-form-urlencoded")  # fmt: skip

    assert (without, other.status, page.status) == (401, 401, 200)
    assert "The proxy signed you in as bob@example.com" in other.body.decode()
    assert f"Signed in as <b>{ANN}</b> by the proxy." in page.body.decode()
    assert (form.status, form.headers["location"], foreign.status) == (303, "/alerts", 403)


def test_its_user_has_live_pages(behind: tuple[Served, ScriptedProxy]) -> None:
    """What happens is sent to the open page; the link works behind it, too."""
    served, proxy = behind
    link = served.ask("POST", "/api/login").json["link"].removeprefix(PUBLIC)
    cookie = ask(proxy, "GET", link).headers["set-cookie"]
    proxy.user = ANN
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    connection.request("GET", "/live?page=fleet&after=0", headers={"Host": NAME})
    stream = connection.getresponse()
    assert stream.readline().startswith(b"retry:")
    retry_until(lambda: served.pages.streams)
    for one in tuple(served.pages.streams):
        one.put(b"event: alert\ndata: for the page\n\n")
    while (line := stream.readline()) and b"for the page" not in line:
        pass
    connection.close()
    served.pages.close()

    assert line == b"data: for the page\n"
    assert "Secure" in cookie
