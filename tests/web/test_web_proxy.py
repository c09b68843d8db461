"""The user whom a trusted proxy names: who is believed, and what that opens."""

import asyncio
import ctypes
import getpass
import http.client
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from web_servers import Answer, Served, serving

from tasuki.config.settings import Settings
from tasuki.errors import UsageError
from tasuki.web.security import proxy as proxy_module
from tasuki.web.security.proxy import open_proxy

PUBLIC = "https://fleet.example.com"
NAME = "fleet.example.com"
HEADER = "X-Forwarded-Email"
ANN = "ann@example.com"
FORM = "application/x-www-form-urlencoded"
CLONE_NEWNET = 0x40000000
NAVIGATED = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}

linux = pytest.mark.skipif(sys.platform != "linux", reason="the system tells no owner of a socket")


def build_settings(proxy: str = "", users: str = f"{ANN} eve") -> Settings:
    """Settings whose proxy is a program of this test's own user."""
    return Settings(
        public_url=PUBLIC, proxy=proxy or f"user:{getpass.getuser()}", proxy_user_header=HEADER, proxy_users=users
    )  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose proxy is a program of this test's own user."""
    if sys.platform != "linux":
        pytest.skip("the system tells no owner of a socket")
    with serving(tmp_path_factory.mktemp("web"), settings=build_settings()) as made:
        yield made


def ask(served: Served, path: str = "/", user: str = ANN, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:  # fmt: skip
    """A request as the proxy passes it on."""
    given = {"Host": NAME, "X_Forwarded_Email": user, **headers}
    return served.ask(method, path, body, token="", **given)


def send_lines(port: int, *lines: str, address: str = "127.0.0.1") -> int:
    """The status of a request of these header lines, as they are."""
    with socket.create_connection((address, port), timeout=30) as connection:
        head = "\r\n".join(("GET /settings HTTP/1.1", f"Host: {NAME}", "Connection: close", *lines))
        connection.sendall(f"{head}\r\n\r\n".encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


# -- who is signed in ------------------------------------------------------------------


def test_the_proxys_user_is_signed_in(served: Served) -> None:
    """Without a link and without a cookie; the settings say who it is, and offer no sign-out."""
    page = ask(served, "/settings/server")
    said = page.body.decode()

    assert (page.status, ask(served).status) == (200, 200)
    assert "set-cookie" not in page.headers
    assert f"Signed in as <b>{ANN}</b> by the proxy." in said
    assert 'action="/logout"' not in said


def test_another_user_is_shown_who_was_seen(served: Served) -> None:
    """Its name is text; it is not signed in."""
    for name, shown in (
        ("bob@example.com", "bob@example.com"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
    ):
        page = ask(served, user=name)

        assert page.status == 401
        assert f"The proxy signed you in as {shown}, who may not use this dashboard" in page.body.decode()  # fmt: skip


@pytest.mark.parametrize("name", ["", " ", "ANN@example.com", f"{ANN},eve", f"{ANN}, eve", f"{ANN} eve", f"{ANN}x", "*", "ann", f'"{ANN}"'])  # fmt: skip
def test_a_name_like_an_allowed_one_is_nobody(served: Served, name: str) -> None:
    """The whole value is compared, byte by byte."""
    assert ask(served, user=name).status == 401


@pytest.mark.parametrize("users", ["", "  "])
def test_no_users_are_nobody(tmp_path: Path, users: str) -> None:
    """An empty list lets nobody in, not everybody."""
    with serving(tmp_path, settings=build_settings(users=users)) as served:
        assert [ask(served, user=name).status for name in (ANN, "", " ")] == [401, 401, 401]


@pytest.mark.parametrize(
    "lines",
    [
        (f"{HEADER}: {ANN}", f"{HEADER}: eve"),
        (f"{HEADER}: {ANN}", f"{HEADER}: {ANN}"),
        (f"{HEADER}: bob", f"{HEADER}: {ANN}"),
        (f"{HEADER.upper()}: bob", f"{HEADER.lower()}: {ANN}"),
        (f"{HEADER.replace('-', '_')}: {ANN}",),
        ("X-Forwarded_Email: " + ANN,),
        (f"{HEADER}-X: {ANN}",),
        (f"X-Forwarded-User: {ANN}",),
        (f"{HEADER}:",),
        (f"Cookie: {HEADER}={ANN}",),
    ],
)
def test_smuggled_headers_sign_nobody_in(served: Served, lines: tuple[str, ...]) -> None:
    """Two values, underscores for hyphens, other names: the header has one form."""
    assert send_lines(served.port, *lines) == 401


def test_one_header_in_any_case_is_taken(served: Served) -> None:
    """Proxies write names as they like; one with underscores next to it changes nothing."""
    assert send_lines(served.port, f"{HEADER.lower()}: {ANN}") == 200
    assert send_lines(served.port, f"{HEADER.upper()}: {ANN}", "X_Forwarded_Email: bob") == 200


def test_a_header_that_is_folded_or_broken_is_refused(served: Served) -> None:
    """A line that continues another, or a blank before the colon, is no header."""
    assert send_lines(served.port, f"X-Other: x\r\n {HEADER}: {ANN}") in (400, 401)
    assert send_lines(served.port, f"{HEADER} : {ANN}") in (400, 401)


@pytest.mark.parametrize("host", ["own", "127.0.0.1", "localhost"])
def test_local_names_have_no_named_user(served: Served, host: str) -> None:
    """The header counts under the public name alone."""
    name = served.site if host == "own" else f"{host}:{served.port}"

    assert ask(served, Host=name).status == 401
    assert ask(served, Host=name, X_Forwarded_Host=NAME).status == 401


# -- what it opens ---------------------------------------------------------------------


def test_the_api_needs_the_token_all_the_same(served: Served) -> None:
    """The proxy's user opens pages; programs have the token."""
    for path in ("/api/agents", "/metrics", "/schema", "/api/sessions"):
        assert ask(served, path).status == 401
    assert ask(served, "/api/login", method="POST", body=b"{}", Content_Type="application/json").status == 401  # fmt: skip


def test_a_form_needs_its_origin(served: Served) -> None:
    """No header of the proxy replaces it: a page of another site could send the form."""

    def send(**headers: str) -> int:
        return ask(served, "/alerts/seen", method="POST", body=b"up_to=0", Content_Type=FORM, **headers).status  # fmt: skip

    assert send(Origin=PUBLIC) == 303
    assert send() == 403
    assert send(Origin="https://evil.example") == 403
    assert send(Origin="null") == 403
    assert send(Origin=PUBLIC, Sec_Fetch_Site="same-origin") == 303


def test_a_request_that_another_site_begins_is_not_signed_in(served: Served) -> None:
    """As a strict cookie would be, the user is left out: nothing is learned from how long an answer takes."""
    for site in ("cross-site", "same-site"):
        assert ask(served, "/threads?q=secret", Sec_Fetch_Site=site).status == 401
        assert ask(served, "/live?page=fleet&after=0", Sec_Fetch_Site=site).status == 401
    assert ask(served, "/settings", Sec_Fetch_Site="same-origin").status == 200
    assert ask(served, "/settings", Sec_Fetch_Site="none", **NAVIGATED).status == 200


def test_a_visit_from_another_site_continues(served: Served) -> None:
    """The page that a link leads to opens by a step of its own, within this name."""
    page = ask(served, "/settings", Sec_Fetch_Site="cross-site", **NAVIGATED)
    said = page.body.decode()
    stranger = ask(served, "/settings", user="bob", Sec_Fetch_Site="cross-site", **NAVIGATED)

    assert page.status == 200
    assert 'content="0;url=/settings"' in said
    assert "Notifications" not in said
    assert stranger.status == 401


def test_the_sign_in_page_sends_a_user_on(served: Served) -> None:
    """Who is signed in by the proxy needs no link."""
    assert 'content="0;url=/"' in ask(served, "/login").body.decode()


def test_a_link_signs_a_browser_in_behind_the_proxy(served: Served) -> None:
    """A cookie counts whatever user the proxy names: the operator gave the link."""
    link = served.ask("POST", "/api/login").json["link"].removeprefix(PUBLIC)
    cookie = ask(served, link, user="bob").headers["set-cookie"].partition(";")[0]

    assert ask(served, user="bob", Cookie=cookie).status == 200
    left = ask(served, "/logout", user=ANN, method="POST", body=b"", Cookie=cookie, Origin=PUBLIC, Content_Type=FORM)  # fmt: skip
    assert f"You are signed in as {ANN} by the proxy. Sign out there." in left.body.decode()
    assert ask(served, user="bob", Cookie=cookie).status == 401


def test_orders_are_logged_with_their_user(served: Served, caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    """The server's log says who ordered what; what is only read is not in it."""
    with caplog.at_level("INFO", logger="tasuki.web"):
        ask(served, "/settings")
        ask(served, "/alerts/seen", method="POST", body=b"up_to=0", Content_Type=FORM, Origin=PUBLIC)  # fmt: skip

    assert [one.getMessage() for one in caplog.records if ANN in one.getMessage()] == [f"POST /alerts/seen by {ANN}."]  # fmt: skip


# -- who is believed -------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")  # fmt: skip
@pytest.mark.parametrize("uid", [65534, 33, 12345])
def test_a_program_of_another_user_is_not_believed(served: Served, uid: int) -> None:
    """It sends the same request from the same address; the kernel tells whose it is."""
    code = f"""import http.client, socket
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
    s = socket.socket(family); s.connect((address, {served.port}))
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: {NAME}\\r\\n{HEADER}: {ANN}\\r\\nConnection: close\\r\\n\\r\\n")
    print(s.makefile("rb").readline().split()[1].decode())
"""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
    done = subprocess.run(
        ["setpriv", f"--reuid={uid}", "--regid=65534", "--clear-groups", python, "-c", code],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip

    assert done.stdout.split() == ["401", "401"]
    assert ask(served).status == 200


@linux
def test_the_owner_is_looked_up_once_for_a_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Only where the header came under the public name: hooks and local pages pay nothing."""
    looked: list[object] = []
    read = proxy_module._read_sockets
    monkeypatch.setattr(
        proxy_module, "_read_sockets", lambda ends: looked.append(ends) or read(ends)
    )
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)

    def ask_again(**headers: str) -> int:
        connection.request("GET", "/settings", headers={"Host": NAME, **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    first = ask_again()
    assert (first, len(looked)) == (401, 0)
    assert [ask_again(**{HEADER: name}) for name in (ANN, "bob", ANN)] == [200, 401, 200]
    assert len(looked) == 1
    connection.close()
    ask(served, Host=served.site)
    served.ask("POST", "/api/hooks/claude", b"{}", token=served.tokens.hook, X_Forwarded_Email=ANN)
    served.ask("POST", "/api/hooks/claude", b"{}", token=served.tokens.hook, Host=NAME, X_Forwarded_Email=ANN)  # fmt: skip
    assert len(looked) == 1


class Transport(asyncio.BaseTransport):
    """The part of a connection that its peer is found by."""

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__()
        self.accepted = accepted

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Its socket."""
        return self.accepted if name == "socket" else default


def build_peer(accepted: socket.socket) -> proxy_module.ConnectionPeer:
    """The other end of a connection that was accepted."""
    return proxy_module.ConnectionPeer(Transport(accepted))


@linux
def test_a_connection_whose_other_end_is_closed_has_no_owner() -> None:
    """The kernel shows such a socket as one of root: nobody is believed then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()

        with accepted:
            open_end = build_peer(accepted)._find_uid()
            client.close()
            closed_end = build_peer(accepted)._find_uid()
        gone = build_peer(accepted)._find_uid()

    assert (open_end, closed_end, gone) == (os.getuid(), None, None)


@linux
def test_ports_that_another_connection_has_now_are_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A row with the same ports and another inode on this side belongs to a later connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        accepted, _ = server.accept()
        with accepted:
            read = proxy_module._read_sockets
            monkeypatch.setattr(
                proxy_module, "_read_sockets",
                lambda ends: (proxy_module.SocketRow(r.local, r.remote, r.state, r.uid, r.inode + 1) for r in read(ends)),
            )  # fmt: skip
            assert build_peer(accepted)._find_uid() is None


def test_an_address_of_this_machine_is_no_other_machine(tmp_path: Path) -> None:
    """A network that has this machine in it: its own programs are not believed."""
    own = find_own_address()
    with serving(tmp_path, host="0.0.0.0", settings=build_settings(proxy=own)) as served:
        assert send_lines(served.port, f"{HEADER}: {ANN}", address=own) == 401


def find_own_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address: str = probe.getsockname()[0]
    return address


@contextmanager
def own_network() -> Iterator[None]:
    """What this thread and those that it starts do happens in a network of their own.

    Browsers of other tests would else see an interface come and go, and give up what they load.
    """
    if os.getuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and ip")
    libc = ctypes.CDLL(None)
    with open("/proc/thread-self/ns/net") as before:
        if libc.unshare(CLONE_NEWNET):
            pytest.skip("no network of its own can be made here")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@contextmanager
def other_machine(number: int) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """A network namespace with a cable to this one: its name, and both ends' addresses by family."""
    name, here, there = f"tsk{number}", f"tskh{number}", f"tskt{number}"
    third, fourth = divmod(number % 16384 * 4, 256)
    net4, net6 = f"198.18.{third}", f"fd00:{number % 65536:x}:"
    own = {"4": f"{net4}.{fourth + 1}", "6": f"{net6}:1"}
    other = {"4": f"{net4}.{fourth + 2}", "6": f"{net6}:2"}
    commands = [
        f"ip netns add {name}", f"ip link add {here} type veth peer name {there}", f"ip link set {there} netns {name}",
        f"ip addr add {own['4']}/30 dev {here}", f"ip addr add {own['6']}/64 dev {here} nodad", f"ip link set {here} up",
        f"ip -n {name} addr add {other['4']}/30 dev {there}", f"ip -n {name} addr add {other['6']}/64 dev {there} nodad",
        f"ip -n {name} link set {there} up",
    ]  # fmt: skip
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no second machine can be made here: {done.stderr.strip()}")
        yield name, own, other
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", here], capture_output=True, check=False)


@pytest.mark.parametrize(
    ("named", "statuses"),
    [("{4}", ["200", "401"]), ("{6}", ["401", "200"]), ("{6}/64", ["401", "200"]), ("192.0.2.3", ["401", "401"])],
)  # fmt: skip
def test_a_proxy_on_another_machine_is_known_by_its_address(
    tmp_path: Path, named: str, statuses: list[str]
) -> None:
    """By IPv4 and IPv6; one that was not named is not believed, nor is this machine itself."""
    with own_network(), other_machine(os.getpid()) as (namespace, own, other):
        proxy = named.replace("{4}", other["4"]).replace("{6}", other["6"])
        proxy = str(ipaddress.ip_network(proxy, strict=False))
        with serving(tmp_path, host="::", settings=build_settings(proxy=proxy)) as served:
            code = f"""import socket
for address in ("{own["4"]}", "{own["6"]}"):
    s = socket.create_connection((address, {served.port}), timeout=20)
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: {NAME}\\r\\n{HEADER}: {ANN}\\r\\nConnection: close\\r\\n\\r\\n")
    print(s.makefile("rb").readline().split()[1].decode())
"""
            done = subprocess.run(
                ["ip", "netns", "exec", namespace, sys.executable, "-c", code],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            here = [
                send_lines(served.port, f"{HEADER}: {ANN}", f"X-Forwarded-For: {other['4']}", address=address)
                for address in ("127.0.0.1", *own.values())
            ]  # fmt: skip

    assert done.stdout.split() == statuses
    assert here == [401, 401, 401]


@linux
def test_ipv4_within_ipv6_is_the_same_connection(tmp_path: Path) -> None:
    """A server that listens on both families sees mapped addresses; the owner is found all the same."""
    with serving(tmp_path, host="::", settings=build_settings()) as served:
        for address in ("127.0.0.1", "::1"):
            try:
                status = send_lines(served.port, f"{HEADER}: {ANN}", address=address)
            except OSError:
                continue
            assert status == 200


def test_what_was_ignored_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The operator learns why nobody is signed in, without the name that was sent."""
    with serving(tmp_path, settings=build_settings(proxy="198.51.100.9")) as served:
        for _ in range(3):
            ask(served)

    said = [one.getMessage() for one in caplog.records if "ignored as a sign-in" in one.getMessage()]  # fmt: skip
    assert len(said) == 1
    assert "did not come from the proxy" in said[0]
    assert ANN not in said[0]


# -- the settings at the start ---------------------------------------------------------


def test_a_system_user_that_is_not_there_is_told() -> None:
    """Before anything starts."""
    with pytest.raises(UsageError, match="There is no system user no-such-user-7 here"):
        open_proxy(build_settings(proxy="user:no-such-user-7"))


@linux
def test_nobody_is_no_proxy() -> None:
    """The kernel shows programs of unknown users as nobody's."""
    with pytest.raises(UsageError, match="cannot be told from others"):
        open_proxy(build_settings(proxy="user:nobody"))


def test_other_systems_tell_no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the setting is refused, with another way in."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="needs Linux"):
        open_proxy(build_settings(proxy="user:root"))
