"""A host joins with a token, and leaves: on a PostgreSQL with passwords and TLS."""

import re
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from databases import Postgres, make_tables
from joins import connected, join_at, read_number, rows, token_for
from waiting import retry_until

from tasuki.errors import NotPossible, Refused
from tasuki.fleet.hosts import FleetHost, identify_host, record_host
from tasuki.fleet.membership import URL_FILE, roles, tokens
from tasuki.fleet.membership.join import join_fleet
from tasuki.fleet.membership.retirement import retire_role
from tasuki.fleet.membership.tokens import create_token, remove_old_tokens
from tasuki.fleet.membership.urls import read_url, render_url, set_place
from tasuki.fleet.server_locks import AdvisoryClaim
from tasuki.fleet.store.database import FleetDatabase, normalize_url

# -- tokens -------------------------------------------------------------------------


def test_a_host_joins_with_a_role_of_its_own(tmp_path: Path, owner: FleetDatabase) -> None:
    """Its URL is kept for its user alone, the token is used, and the role is in the hosts' group."""
    joined = join_at(tmp_path, owner, "build2")
    kept = read_url(tmp_path / "fleet")
    id = identify_host(tmp_path / "fleet").id

    assert (id, f"tasuki_host_{id[1:]}") == (joined.id, joined.role)
    assert 0o600 == (tmp_path / "fleet" / URL_FILE).stat().st_mode & 0o777
    assert [(joined.role, "build2")] == rows(owner, "SELECT role, given_label FROM hosts")
    with connected(kept) as connection:
        assert (joined.role,) == connection.execute("SELECT current_user").fetchone()
    assert [(id,)] == rows(owner, "SELECT host FROM join_tokens WHERE used_at IS NOT NULL")


def test_a_token_works_once(tmp_path: Path, owner: FleetDatabase) -> None:
    """The second host is told where to get a new one; it gets no file and no role."""
    token = token_for(owner)
    join_fleet(token.url, tmp_path / "one")
    with pytest.raises(NotPossible, match=r"was used already.* tasuki host add"):
        join_fleet(token.url, tmp_path / "two")

    assert not (tmp_path / "two" / "fleet" / URL_FILE).exists()
    assert [(1,)] == rows(owner, "SELECT count(*) FROM hosts")
    assert [(False,)] == rows(
        owner, f"SELECT rolcanlogin FROM pg_roles WHERE rolname = '{token.role}'"
    )


def test_of_two_at_once_one_joins(tmp_path: Path, owner: FleetDatabase) -> None:
    """Both hold the same token: one host gets a role, the other one a sentence."""
    token = token_for(owner)
    outcomes: list[object] = []

    def join(name: str) -> None:
        try:
            outcomes.append(join_fleet(token.url, tmp_path / name).id)
        except NotPossible as error:
            outcomes.append(error)

    threads = [threading.Thread(target=join, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    refused = [str(one) for one in outcomes if isinstance(one, NotPossible)]

    assert (2, 1) == (len(outcomes), len(refused))
    assert "token" in refused[0]
    assert [(1,)] == rows(owner, "SELECT count(*) FROM hosts")


def test_two_sessions_of_one_token_are_decided_by_its_row(owner: FleetDatabase) -> None:
    """Both are signed in before either joins: the second waits for the first, and is refused."""
    token = token_for(owner)
    verifier = "SCRAM-SHA-256$4096:" + "A" * 24 + "$" + "A" * 44 + ":" + "A" * 44
    call = "SELECT role_name FROM tasuki_join(%s, '', %s)"
    with psycopg.connect(token.url) as one, psycopg.connect(token.url) as two:
        one.execute(call, ("h0000000000a1", verifier))
        said: list[str] = []

        def join_second() -> None:
            try:
                two.execute(call, ("h0000000000a2", verifier))
            except psycopg.Error as error:
                said.append(str(error))

        second = threading.Thread(target=join_second)
        second.start()
        retry_until(lambda: rows(owner, "SELECT 1 FROM pg_locks WHERE NOT granted"))
        one.commit()
        second.join(30)

    assert "used already" in said[0]
    assert [("h0000000000a1",)] == rows(owner, "SELECT id FROM hosts")


def test_an_expired_token_is_refused(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """By PostgreSQL, and by the function for a session that was signed in before; then its role is dropped."""
    token = token_for(owner)
    with connected(token.url) as early:
        with owner.write() as connection:
            connection.execute(sa.text("UPDATE join_tokens SET ends_at = 1"))
        guarded.tell(f"ALTER ROLE {token.role} VALID UNTIL '2020-01-01'")
        with pytest.raises(psycopg.Error, match="has expired"):
            early.execute("SELECT * FROM tasuki_join('h0000000000a1', '', '')")
    with pytest.raises(NotPossible, match="older than 15 minutes"):
        join_fleet(token.url, tmp_path)

    assert 1 == remove_old_tokens(owner)
    assert [] == rows(owner, f"SELECT 1 FROM pg_roles WHERE rolname = '{token.role}'")


def test_a_guessed_token_is_refused(tmp_path: Path, owner: FleetDatabase) -> None:
    """A wrong password, and a URL that is no token at all."""
    token = token_for(owner)
    wrong = re.sub(r":[^:@/]+@", ":guess@", token.url)
    with pytest.raises(NotPossible, match="mistyped"):
        join_fleet(wrong, tmp_path)
    with pytest.raises(NotPossible, match="no URL of a token"):
        join_fleet(owner.url, tmp_path)

    assert not (tmp_path / "fleet" / URL_FILE).exists()


HOSTILE = [
    ("x'; DROP TABLE agents; --", "", "id of the host"),
    ("h0000000000A1", "", "id of the host"),
    ("h0000000000a1\n", "", "id of the host"),
    (None, "", "id of the host"),
    ("h0000000000a1", "\x1b[31m", "label"),
    ("h0000000000a1", "x" * 101, "label"),
]


@pytest.mark.parametrize(("id", "label", "reason"), HOSTILE)
def test_the_function_trusts_no_argument(
    owner: FleetDatabase, id: str | None, label: str, reason: str
) -> None:
    """It runs with the owner's rights: what is no id or label is refused, and the token stays unused."""
    verifier = "SCRAM-SHA-256$4096:" + "A" * 24 + "$" + "A" * 44 + ":" + "A" * 44
    with connected(token_for(owner).url) as connection, pytest.raises(psycopg.Error, match=reason):
        connection.execute("SELECT * FROM tasuki_join(%s, %s, %s)", (id, label, verifier))

    assert [(None,)] == rows(owner, "SELECT used_at FROM join_tokens")


def test_the_function_takes_no_clear_password(owner: FleetDatabase) -> None:
    """Only a verifier, so that no password reaches a log."""
    with connected(token_for(owner).url) as connection, pytest.raises(psycopg.Error, match="SCRAM"):
        connection.execute("SELECT * FROM tasuki_join('h0000000000a1', '', 'secret')")


def test_a_label_with_quotes_is_kept_as_it_is(tmp_path: Path, owner: FleetDatabase) -> None:
    """It is a value, never a part of a statement."""
    label = 'Ann\'s "box"; %s %I'
    join_at(tmp_path, owner, label)

    assert [(label,)] == rows(owner, "SELECT given_label FROM hosts")


def test_no_password_reaches_the_servers_log(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """PostgreSQL logs each statement here: neither the token's password nor the host's is in it."""
    token = token_for(owner)
    join_fleet(token.url, tmp_path)
    logged = (guarded.folder / "log").read_text()
    passwords = [sa.make_url(url).password for url in (token.url, read_url(tmp_path / "fleet"))]

    assert f'CREATE ROLE "{token.role}"' in logged
    assert not [one for one in passwords if str(one) in logged]


def test_an_interrupted_join_is_done_again(
    tmp_path: Path, owner: FleetDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role was made, and the file was not written: a new token gives the same role a new password."""
    first = token_for(owner)
    with monkeypatch.context() as patch:
        patch.setattr("tasuki.fleet.membership.urls.write_url", _end_here)
        with pytest.raises(KeyboardInterrupt):
            join_fleet(first.url, tmp_path)
    made = rows(owner, "SELECT role FROM hosts")
    joined = join_at(tmp_path, owner)

    assert [(joined.role,)] == made
    with connected(read_url(tmp_path / "fleet")) as connection:
        assert (joined.role,) == connection.execute("SELECT current_user").fetchone()


def _end_here(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_host_whose_server_runs_is_not_taken_over(tmp_path: Path, owner: FleetDatabase) -> None:
    """A copy of its data folder cannot take its role while it is in use."""
    joined = join_at(tmp_path, owner)
    claim = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost(joined.id, "x"))
    claim.take()
    try:
        with pytest.raises(NotPossible, match="A server of this host runs"):
            join_at(tmp_path, owner)
    finally:
        claim.release()
    join_at(tmp_path, owner)


def test_a_role_of_another_fleet_is_left_alone(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """Two fleets in one PostgreSQL: a token of one gives nobody the role of a host of the other."""
    other_url = guarded.make_owned()
    make_tables(other_url)
    other = FleetDatabase(other_url)
    join_at(tmp_path, other)
    kept = read_url(tmp_path / "fleet")
    try:
        with pytest.raises(NotPossible, match="another fleet of the same PostgreSQL"):
            join_fleet(token_for(owner).url, tmp_path, leave_agents=True)
    finally:
        other.close()

    assert kept == read_url(tmp_path / "fleet")
    with connected(kept):
        pass


# -- leaving ------------------------------------------------------------------------


def test_a_retired_role_is_gone(tmp_path: Path, owner: FleetDatabase) -> None:
    """Its connections end, and nobody signs in with it any more."""
    joined = join_at(tmp_path, owner)
    url = read_url(tmp_path / "fleet")
    with connected(url) as connection:
        outcome = retire_role(owner, joined.id)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError), connected(url):
        pass

    assert "dropped" == outcome
    assert "shared" == retire_role(owner, joined.id)


def test_retiring_takes_no_role_that_a_row_names(owner: FleetDatabase) -> None:
    """Hosts write to the table of hosts: the name of the role comes from the id alone."""
    with owner.write() as connection:
        record_host(connection, FleetHost("h0000000000a1", "evil"))
        connection.execute(sa.text("UPDATE hosts SET role = 'postgres'"))

    assert "shared" == retire_role(owner, "h0000000000a1")
    assert [(True,)] == rows(owner, "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'postgres'")


# -- TLS ----------------------------------------------------------------------------


def test_the_certificate_is_verified(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """By the name that is in it, and the authority that is given; what was given is kept for the server."""
    url = tokens.create_token(owner, "", f"localhost:{guarded.port}").url + "?sslmode=verify-full"
    authority = (guarded.folder / "ca.pem").read_bytes()
    joined = join_fleet(url, tmp_path, certificates=authority)
    kept = sa.make_url(read_url(tmp_path / "fleet"))
    with connected(read_url(tmp_path / "fleet")) as connection:
        encrypted = connection.execute(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ).fetchone()

    assert joined.role == kept.username
    assert (True,) == encrypted
    assert "verify-full" == kept.query["sslmode"]


@pytest.mark.parametrize(
    ("name", "has_authority", "reason"),
    [("127.0.0.1", True, "another name"), ("localhost", False, "--ca FILE")],
)
def test_a_wrong_certificate_is_refused(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres, name: str, has_authority: bool, reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Another name, or an unknown authority: no password is sent, and the token stays unused."""
    monkeypatch.setenv("HOME", str(tmp_path))
    url = tokens.create_token(owner, "", f"{name}:{guarded.port}").url + "?sslmode=verify-full"
    authority = (guarded.folder / "ca.pem").read_bytes() if has_authority else b""
    with pytest.raises(NotPossible, match=reason):
        join_fleet(url, tmp_path, certificates=authority)

    assert [(None,)] == rows(owner, "SELECT used_at FROM join_tokens")


PLACES = {
    "db.example.com": "db.example.com:6000/x", "db.example.com:1": "db.example.com:1/x", "[fd00::7]:2": "[fd00::7]:2/x",
    "/run/sockets": "/x?host=%2Frun%2Fsockets&port=6000",
}  # fmt: skip


@pytest.mark.parametrize(("place", "expected"), PLACES.items())
def test_a_place_replaces_that_of_the_server(place: str, expected: str) -> None:
    """A name, an address or a folder of sockets; the port stays unless it is given."""
    url = sa.make_url("postgresql://me:p%40w@/x?host=/tmp&port=6000")

    assert f"postgresql://me:p%40w@{expected}" == render_url(set_place(url, place))


@pytest.mark.parametrize(
    "place", ["", ":5", "a:b", "a:70000", "fd00::7", "a/b", "me@b", "a?b=c", "a,b"]
)
def test_a_place_that_is_none_is_refused(place: str) -> None:
    """It could lead elsewhere than it says."""
    with pytest.raises(NotPossible, match="is no HOST"):
        set_place(sa.make_url("postgresql://me@/x"), place)


def test_pg_hba_can_name_the_groups(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """As the docs have it: over TLS, the fleet's own database, and nobody but its hosts and tokens."""
    roles.prepare_roles(owner)
    file, number = guarded.data / "pg_hba.conf", read_number(owner)
    before, name = file.read_text(), owner.engine.url.database
    url = create_token(owner, place=f"localhost:{guarded.port}").url + "?sslmode=verify-full"
    members = f"+tasuki_hosts_{number},+tasuki_joining_{number}"
    file.write_text(f"local all postgres trust\nhostssl {name} {members} 127.0.0.1/32 scram-sha-256\n")  # fmt: skip
    guarded.tell("SELECT pg_reload_conf()")
    try:
        retry_until(lambda: _is_refused(owner.url))
        join_fleet(url, tmp_path, certificates=(guarded.folder / "ca.pem").read_bytes())
        own = read_url(tmp_path / "fleet")
        with connected(own) as connection:
            hosts = connection.execute("SELECT count(*) FROM hosts").fetchone()

        assert (1,) == hosts
        assert _is_refused(own.replace(f"/{name}", "/postgres"))
    finally:
        file.write_text(before)
        guarded.tell("SELECT pg_reload_conf()")
        retry_until(lambda: not _is_refused(owner.url))


def _is_refused(url: str) -> bool:
    try:
        with connected(sa.make_url(url).set(drivername="postgresql").render_as_string(False)):
            return False
    except psycopg.OperationalError as error:
        return "no pg_hba.conf entry" in str(error)


def test_an_unverified_server_is_refused(tmp_path: Path, owner: FleetDatabase) -> None:
    """A name of the network without verify-full is never asked; with the flag it would be."""
    url = token_for(owner).url.replace("127.0.0.1", "db.invalid")
    with pytest.raises(Refused, match="sslmode=verify-full"):
        join_fleet(url, tmp_path)
    with pytest.raises(NotPossible, match=r"db\.invalid"):
        join_fleet(url, tmp_path, allow_unverified=True)


def test_a_token_for_another_place_is_verified(owner: FleetDatabase) -> None:
    """The URL of a token asks for verify-full, but for this machine alone."""
    far = create_token(owner, place="db.example.com:6432").url
    by_choice = create_token(owner, place="db.example.com", allow_unverified=True).url

    assert far.endswith(f"@db.example.com:6432/{owner.engine.url.database}?sslmode=verify-full")
    assert "sslmode" not in by_choice
    with pytest.raises(NotPossible, match="--database-host"):
        create_token(owner)
