"""A reverse proxy that sends the headers of a program that cannot be had here, as that one's documentation has them."""

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct

HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})  # fmt: skip
CLIENT = "100.101.102.103"


class ProxyHeaders(Struct, frozen=True):
    """What a proxy takes away from a request and what it adds, by a user."""

    removed: frozenset[str]
    """In lower case."""
    added: Mapping[str, str]
    """USER is the user, HOST the name that the browser asked for."""


TAILSCALE = ProxyHeaders(
    frozenset({"tailscale-user-login", "tailscale-user-name", "tailscale-user-profile-pic", "tailscale-funnel-request",
               "tailscale-headers-info", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-for"}),
    {"X-Forwarded-Host": "HOST", "X-Forwarded-Proto": "https", "X-Forwarded-For": CLIENT, "Tailscale-User-Login": "USER",
     "Tailscale-User-Name": "Ann Example", "Tailscale-User-Profile-Pic": "https://example.com/ann.jpg",
     "Tailscale-Headers-Info": "https://tailscale.com/s/serve-headers"},
)  # fmt: skip
"""`tailscale serve`: https://tailscale.com/s/serve-headers."""
OAUTH2_PROXY = ProxyHeaders(
    frozenset({"x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username"}),
    {"X-Forwarded-For": CLIENT, "X-Forwarded-User": "110169484474386276334", "X-Forwarded-Email": "USER",
     "X-Forwarded-Preferred-Username": "ann", "X-Forwarded-Groups": "staff,fleet"},
)  # fmt: skip
"""oauth2-proxy 7 with `pass_host_header` and `pass_user_headers`, both true unless they are set."""


class ScriptedProxy(ThreadingHTTPServer):
    """A proxy in front of a port; `user` is who is signed in to it, empty for nobody."""

    def __init__(self, upstream: int, rules: ProxyHeaders) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = upstream
        self.rules = rules
        self.user = ""
        self.port = self.server_address[1]


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedProxy

    def do_GET(self) -> None:
        rules, user = self.server.rules, self.server.user
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=30)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in rules.removed | HOP_BY_HOP:
                connection.putheader(name, value)
        for name, value in rules.added.items():
            if user or "User" not in name:
                connection.putheader(name, value.replace("USER", user).replace("HOST", self.headers["host"]))  # fmt: skip
        connection.endheaders(body)
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while piece := answer.read1(65536):
            self.wfile.write(piece)
        connection.close()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def scripted_proxy(upstream: int, rules: ProxyHeaders) -> Iterator[ScriptedProxy]:
    """A proxy on a free port."""
    with ScriptedProxy(upstream, rules) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
