"""Web Push: a browser alone can read what is sent to it, once, while it wants that."""

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from waiting import retry_until

from tasuki.errors import NotPossible, StoreFailed, UsageError
from tasuki.fleet import alerts
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.push.encryption import (
    CURVE,
    MOST_MESSAGE_BYTES,
    decode_text,
    encode_point,
    encode_text,
    encrypt_message,
    load_point,
)
from tasuki.fleet.push.identity import KEY_FILE, ServerIdentity
from tasuki.fleet.push.sender import PushSender
from tasuki.fleet.push.subscriptions import (
    IDLE_SECONDS,
    MOST_SUBSCRIPTIONS,
    PushSubscription,
    add_subscription,
    check_endpoint,
    list_subscriptions,
)
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert

ORIGIN = "https://fleet.example.com"


class Browser:
    """A browser's own keys, by which it reads what is sent to it."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(CURVE)
        self.public = encode_point(self.key.public_key())
        self.secret = os.urandom(16)

    def subscription(self, endpoint: str, **values: Any) -> PushSubscription:
        """What it tells the server."""
        return PushSubscription(
            endpoint, encode_text(self.public), encode_text(self.secret), **values
        )

    def read(self, body: bytes) -> bytes:
        """Decrypt a message, as RFC 8291 says."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender = body[21 : 21 + length]
        shared = self.key.exchange(ec.ECDH(), load_point(sender))
        derive = lambda salt, key, info, size: HKDF(SHA256(), size, salt, info).derive(key)  # noqa: E731
        key = derive(self.secret, shared, b"WebPush: info\0" + self.public + sender, 32)
        content, nonce = (
            derive(salt, key, b"Content-Encoding: %b\0" % name, size)
            for name, size in ((b"aes128gcm", 16), (b"nonce", 12))
        )
        assert size == 4096
        padded = AESGCM(content).decrypt(nonce, body[21 + length :], None).rstrip(b"\0")
        assert padded[-1:] == b"\x02"
        return padded[:-1]


class PushService:
    """A push service on this machine; `status` is what it answers."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 201
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.got.append((self.path, dict(self.headers), body))
                self.send_response(service.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[PushService]:
    """A push service of the test's own."""
    made = PushService()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sign_in(database: FleetDatabase, *, used_at: float | None = None, host: str = "h") -> int:
    """The session of a browser; its id."""
    now = time.time()
    row = {
        "key_hash": os.urandom(8).hex(),
        "host": host,
        "made_at": now,
        "used_at": used_at or now,
        "ends_at": now + 9999,
    }
    with database.write() as connection:
        result = connection.execute(sa.insert(tables.browser_sessions), row)
        assert result.inserted_primary_key
        return int(result.inserted_primary_key[0])


def subscribe(database: FleetDatabase, endpoint: str, **values: Any) -> Browser:
    """A browser that is signed in and asked for notifications."""
    browser = Browser()
    values = values or {"session_id": sign_in(database)}
    add_subscription(database, "h", browser.subscription(endpoint, **values))
    return browser


def tell(database: FleetDatabase, data: Path, origin: str = ORIGIN) -> OperatorAlert:
    """An alert about an agent, once it was sent or was not."""
    with database.write() as connection:
        alerts.raise_alert(
            connection, "needs_you", os.urandom(4).hex(), "developer-con-1 waits for you",
            "permission for Bash: rm -rf /secret", host="h",
        )  # fmt: skip
    notifier = AlertNotifier(database, "h", "", "needs_you failed", PushSender(database, "h", data))
    notifier.origin = origin
    notifier.start()
    try:
        retry_until(
            lambda: alerts.list_newest_alerts(database, 1)[0].state not in ("due", "sending")
        )
    finally:
        notifier.close(5)
    return alerts.list_newest_alerts(database, 1)[0]


@pytest.fixture(autouse=True)
def no_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that shows no notifications itself."""
    monkeypatch.setattr("tasuki.notify.has_desktop", lambda: False)


def test_the_example_of_the_standard() -> None:
    """The message of RFC 8291, appendix A, is encrypted to the very same bytes."""
    own = int.from_bytes(decode_text("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"), "big")
    body = encrypt_message(
        b"When I grow up, I want to be a watermelon",
        decode_text("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
        decode_text("BTBZMqHH6r4Tts7J_aSIgg"), own_key=ec.derive_private_key(own, CURVE),
        salt=decode_text("DGv6ra1nlYgDCS1FRnbzlw"), length=0,
    )  # fmt: skip

    assert encode_text(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
        "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_an_alert_reaches_the_browser_that_asked(
    database: FleetDatabase, service: PushService, tmp_path: Path
) -> None:
    """It reads the title and the page, nothing of the command; the service learns the server and no word."""
    browser = subscribe(database, f"{service.origin}/one?x=1")
    alert = tell(database, tmp_path)
    (path, headers, body) = service.got[0]
    told = json.loads(browser.read(body))

    assert (alert.state, alert.problem, len(service.got), path) == ("sent", "", 1, "/one?x=1")
    assert told == {
        "id": alert.id, "title": "developer-con-1 waits for you", "text": "", "path": "/alerts",
    }  # fmt: skip
    assert b"developer" not in body
    assert (headers["Content-Encoding"], headers["TTL"], headers["Urgency"]) == (
        "aes128gcm",
        "3600",
        "high",
    )
    token, key = headers["Authorization"].removeprefix("vapid t=").split(", k=")
    signed, _, signature = token.rpartition(".")
    claims = json.loads(decode_text(signed.split(".")[1]))
    raw = decode_text(signature)
    numbers = [int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")]
    load_point(decode_text(key)).verify(
        utils.encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(SHA256())
    )
    assert (claims["aud"], claims["sub"]) == (service.origin, ORIGIN)
    assert 0 < claims["exp"] - time.time() <= 12 * 3600


def test_nothing_is_sent_without_https(
    database: FleetDatabase, service: PushService, tmp_path: Path
) -> None:
    """A server without a public address sends nothing, and makes no key."""
    subscribe(database, service.origin)
    alert = tell(database, tmp_path, "http://tasuki-1.localhost:8787")

    assert (alert.state, service.got) == ("quiet", [])
    assert not (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_forgotten(
    database: FleetDatabase, service: PushService, tmp_path: Path, status: int
) -> None:
    """Where its push service knows it no longer, nothing is sent to it again."""
    subscribe(database, service.origin)
    service.status = status
    first, second = tell(database, tmp_path), tell(database, tmp_path)

    assert (first.state, second.state, len(service.got)) == ("not_sent", "quiet", 1)
    assert first.problem == "A browser wants no notifications any more, says 127.0.0.1."


@pytest.mark.parametrize("status", [301, 413, 500])
def test_a_service_that_refuses_is_told(
    database: FleetDatabase, service: PushService, tmp_path: Path, status: int
) -> None:
    """The alert says which service and its answer; it is sent once, and no redirect is followed."""
    subscribe(database, f"{service.origin}/secret")
    service.status = status
    alert = tell(database, tmp_path)

    assert (alert.state, alert.problem) == (
        "not_sent",
        f"The push service 127.0.0.1 answered {status}.",
    )
    assert [path for path, _, _ in service.got] == ["/secret"]


def test_one_that_fails_keeps_none_from_the_others(
    database: FleetDatabase, service: PushService, tmp_path: Path
) -> None:
    """An alert that one browser got was sent; the one that could not be reached is told."""
    subscribe(database, "http://127.0.0.1:9/away")
    subscribe(database, service.origin)
    alert = tell(database, tmp_path)

    assert (alert.state, len(service.got)) == ("sent", 1)
    assert alert.problem == "The push service 127.0.0.1 could not be reached."


def test_it_ends_with_the_session(database: FleetDatabase, service: PushService) -> None:
    """A browser that was signed out, or was not used for a week, gets nothing and is forgotten; so does a user who may not come any more."""
    idle = sign_in(database, used_at=time.time() - IDLE_SECONDS - 1)
    open_session = sign_in(database)
    for name, values in {
        "/idle": {"session_id": idle}, "/ended": {"session_id": 999}, "/open": {"session_id": open_session},
        "/ann": {"proxy_user": "ann"}, "/bob": {"proxy_user": "bob"}, "/none": {"proxy_user": ""},
    }.items():  # fmt: skip
        subscribe(database, f"{service.origin}{name}", **values)
    listed = list_subscriptions(database, "h", ["ann"])
    with database.read() as connection:
        kept = connection.execute(sa.select(tables.push_subscriptions.c.id)).all()

    assert [one.endpoint.removeprefix(service.origin) for one in listed] == ["/open", "/ann"]
    assert len(kept) == 2
    assert list_subscriptions(database, "another", ["ann"]) == []


def test_a_browser_is_known_once(database: FleetDatabase) -> None:
    """One that subscribes again has its new keys; of very many the oldest go."""
    session = sign_in(database)
    for number in range(MOST_SUBSCRIPTIONS + 2):
        subscribe(database, f"https://push.example/{number}", session_id=session)
    newest = subscribe(database, "https://push.example/50", session_id=session)
    listed = list_subscriptions(database, "h", [])

    assert len(listed) == MOST_SUBSCRIPTIONS
    assert [one.public_key for one in listed if one.endpoint.endswith("/50")] == [
        encode_text(newest.public)
    ]
    assert "https://push.example/0" not in {one.endpoint for one in listed}


def test_keys_that_are_none_are_refused(database: FleetDatabase) -> None:
    """A point beside the curve, a short secret, no base64 and an address without HTTPS are refused in a sentence."""
    good = Browser().subscription("https://push.example/1")
    for key, secret in (
        (encode_text(b"\x04" + b"\x01" * 64), good.secret), ("AAAA", good.secret), ("", ""),
        (good.public_key, "AAAA"), (good.public_key, "ü"), ("\x00", good.secret),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            add_subscription(database, "h", PushSubscription(good.endpoint, key, secret))
    for endpoint in ("http://a/b", "https://", "file:///x", "https://u:p@a/", "https://a\\b", ""):
        with pytest.raises(NotPossible, match="https://"):
            check_endpoint(endpoint)
    with pytest.raises(UsageError, match="3000 bytes"):
        encrypt_message(b"x" * (MOST_MESSAGE_BYTES + 1), Browser().public, b"s" * 16)


def test_the_key_is_made_once(tmp_path: Path) -> None:
    """Its file is the owner's alone and stays; one that holds no key is told, not replaced."""
    path = tmp_path / KEY_FILE
    first = ServerIdentity(path).public_key
    mode = path.stat().st_mode & 0o777

    assert (mode, ServerIdentity(path).public_key) == (0o600, first)
    for content in ("", "no key", "AAAA", "ü"):
        path.write_text(content)
        with pytest.raises(StoreFailed, match=KEY_FILE):
            ServerIdentity(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed):
        ServerIdentity(path)
    assert not (tmp_path / "elsewhere").exists()
