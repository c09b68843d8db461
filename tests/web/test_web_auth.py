"""Who may ask the server, and from where."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_servers import Served, serving

from tasuki.errors import StoreFailed
from tasuki.web.security.access import ServerHosts, ServerTokens, is_loopback, load_tokens


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for all tests of this file."""
    with serving(tmp_path_factory.mktemp("web")) as one:
        yield one


def test_tokens_are_made_once_and_for_their_owner(tmp_path: Path) -> None:
    """Two secrets in files of mode 600, the same at the next start; the proof is another one."""
    made, again = load_tokens(tmp_path), load_tokens(tmp_path)

    assert (made.operator, made.hook) == (again.operator, again.hook)
    assert len({made.operator, made.hook, made.proof, again.proof}) == 4
    assert [0o600, 0o600] == [
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("token", "hook-token")
    ]
    assert ["hook-token", "token"] == sorted(os.listdir(tmp_path))


def test_tokens_made_at_once_are_the_same(tmp_path: Path) -> None:
    """Whoever comes second takes what is there."""
    made: list[ServerTokens] = []
    threads = [
        threading.Thread(target=lambda: made.append(load_tokens(tmp_path))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert 8 == len(made)
    assert 1 == len({one.operator for one in made})


def test_a_token_that_others_know_is_refused(tmp_path: Path) -> None:
    """One that others can read, an empty one, and a link in its place."""
    load_tokens(tmp_path)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(StoreFailed, match=r"Others can read the token .*/token \(mode 644\)"):
        load_tokens(tmp_path)
    (tmp_path / "token").unlink()
    (tmp_path / "token").touch(0o600)
    with pytest.raises(StoreFailed, match="holds no token"):
        load_tokens(tmp_path)
    (tmp_path / "token").unlink()
    (tmp_path / "token").symlink_to(tmp_path / "hook-token")
    with pytest.raises(StoreFailed, match="cannot be used"):
        load_tokens(tmp_path)


@pytest.mark.parametrize(
    "path",
    ["/api/agents", "/api/agents/1", "/api/personas", "/api/handoffs", "/api/events", "/api/log", "/api/lineage/a-b-1",
     "/metrics", "/schema", "/schema/openapi.json"],
)  # fmt: skip
def test_everything_needs_the_operators_token(served: Served, path: str) -> None:
    """None, a wrong one, the hooks' one, one in another form: 401, and how to do it."""
    for authorization in ("", "Bearer x", f"Bearer {served.tokens.hook}", f"Basic {served.tokens.operator}",
                          f"{served.tokens.operator}", "Bearer \xff", "Bearer "):  # fmt: skip
        got = served.ask("GET", path, token="", Authorization=authorization)
        assert (401, "Bearer") == (got.status, got.headers.get("www-authenticate")), (
            path,
            authorization,
        )
        assert "This needs the token from the file `fleet/token`" in got.error


def test_changes_need_the_operators_token(served: Served) -> None:
    """Nothing is started, typed or handed off without it."""
    paths = ["/api/agents", "/api/agents/adopt", "/api/agents/1/send", "/api/agents/1/stop", "/api/agents/1/handoff",
             "/api/personas", "/api/handoffs/abcd/retry"]  # fmt: skip

    assert [401] * 7 == [
        served.ask("POST", path, {}, token=served.tokens.hook).status for path in paths
    ]


def test_hooks_need_their_own_token(served: Served) -> None:
    """The operator's does not open them, and no hook's token opens anything else."""
    got = served.ask("POST", "/api/hooks/claude", b"{}")

    assert (401, True) == (got.status, "fleet/hook-token" in got.error)
    assert 200 == served.ask("POST", "/api/hooks/claude", b"{}", token=served.tokens.hook).status


def test_health_needs_no_token(served: Served) -> None:
    """And it tells nothing but that."""
    assert {"status": "ok"} == served.ask("GET", "/health", token="").json


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]:1", "169.254.1.1",
                                  "localhost.evil"])  # fmt: skip
def test_a_foreign_host_is_refused(served: Served, host: str) -> None:
    """A name that a page bound to this address (DNS rebinding)."""
    got = served.ask("GET", "/health", Host=host)

    assert 421 == got.status
    assert "is not known by the name in `Host`" in got.error


def test_our_own_names_are_known(served: Served) -> None:
    """With any port: a tunnel may have another one."""
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8787"):
        assert 200 == served.ask("GET", "/health", Host=host).status


def test_a_foreign_origin_is_refused(served: Served) -> None:
    """Even with the token: a page of another origin, of none, of another port."""
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"https://{served.host}",
        "http://localhost",
    ):
        got = served.ask("GET", "/api/agents", Origin=origin)
        assert (403, "Pages of another origin may not ask this server.") == (
            got.status,
            got.error,
        ), origin
    assert 200 == served.ask("GET", "/api/agents", Origin=f"http://{served.host}").status


def test_a_body_is_json_by_name(served: Served) -> None:
    """A form or plain text, which a page can send anywhere, is refused."""
    for content in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        got = served.ask(
            "POST", "/api/personas", b'{"role": "a", "name": "b"}', Content_Type=content
        )
        assert (415, "The body must be JSON, with `Content-Type: application/json`.") == (
            got.status,
            got.error,
        )
    assert 404 == served.ask("POST", "/api/handoffs/abcd/retry").status


def test_a_server_for_every_address_goes_by_addresses() -> None:
    """An address cannot be bound to another; a name can."""
    hosts = ServerHosts("0.0.0.0")

    assert [True, True, False] == [
        hosts.has_name(h) for h in ("192.168.1.7:8787", "[fe80::1]", "evil.example")
    ]
    assert [True, False] == [
        ServerHosts("tower.local").has_name(h) for h in ("tower.local:1", "192.168.1.7")
    ]


def test_loopback_addresses_are_told() -> None:
    """What other machines cannot reach."""
    assert [True, True, True, False, False, False] == [
        is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org", "")
    ]
