"""A host joins with a token, gets a role of its own, and leaves: on a PostgreSQL with passwords and TLS."""

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from databases import Postgres, make_tables, missing, postgres
from fleets import TASUKI, World, once, refusal
from waiting import retry_until

from tasuki import __version__
from tasuki.errors import NotPossible, Refused, ServerFailed, StoreFailed
from tasuki.fleet.hosts import FleetHost, identify_host, record_host
from tasuki.fleet.membership import URL_FILE, roles, tokens
from tasuki.fleet.membership.join import JoinedHost, join_fleet
from tasuki.fleet.membership.retirement import retire_role
from tasuki.fleet.membership.tokens import JoinToken, create_token, remove_old_tokens
from tasuki.fleet.membership.urls import read_url, render_url, set_place
from tasuki.fleet.server_locks import AdvisoryClaim
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url, normalize_url


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """A PostgreSQL that lets in by passwords, on loopback with TLS."""
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with postgres(guarded=True) as server:
        yield server


@pytest.fixture
def owner_url(guarded: Postgres) -> Iterator[str]:
    """The URL of an empty database's owner, who may make roles and is no superuser."""
    made = guarded.make_owned()
    yield made
    guarded.drop(made)


@pytest.fixture
def owner(owner_url: str) -> Iterator[FleetDatabase]:
    """The database with the fleet's tables, as its owner."""
    make_tables(owner_url)
    made = FleetDatabase(owner_url)
    yield made
    made.close()


@pytest.fixture
def worlds() -> Iterator[ExitStack]:
    """Ends the fleets of a test."""
    with ExitStack() as made:
        yield made


def world_at(worlds: ExitStack, folder: Path, url: str = "", name: str = "") -> World:
    """A fleet in a folder of its own, on a machine of some name."""
    folder.mkdir(exist_ok=True)
    made = World(folder, url)
    worlds.callback(made.close)
    made.env["FLEET_HOST_NAME"] = name
    return made


def token_for(owner: FleetDatabase, label: str = "") -> JoinToken:
    """A token for a host on this machine."""
    return create_token(owner, label, f"127.0.0.1:{owner.engine.url.port}")


def join_at(folder: Path, owner: FleetDatabase, label: str = "") -> JoinedHost:
    """Join with a data folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return join_fleet(token_for(owner, label).url, folder)


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """A connection by a URL of PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def rows(owner: FleetDatabase, statement: str) -> list[tuple[object, ...]]:
    """The rows of a query."""
    with owner.read() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


# -- tokens ----------------------------------------------------------------------------


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
        patch.setattr("tasuki.fleet.membership.join.write_url", _end_here)
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


# -- what roles may do -----------------------------------------------------------------

FORBIDDEN = [
    "CREATE TABLE public.mine (x int)", "CREATE SCHEMA mine", "DROP TABLE agents", "ALTER TABLE agents ADD COLUMN x int",
    "TRUNCATE events", "CREATE ROLE other", "ALTER ROLE CURRENT_USER CREATEROLE", "ALTER ROLE postgres PASSWORD 'x'",
    "SELECT * FROM pg_authid", "GRANT tasuki_owner_x TO CURRENT_USER", "UPDATE fleet_schema SET version_num = '0001'",
    "UPDATE join_tokens SET used_at = NULL", "CREATE DATABASE other", "CREATE PUBLICATION mine",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", "COPY agents TO PROGRAM 'id'",
    "COPY agents FROM '/etc/passwd'", "SELECT pg_read_file('/etc/passwd')", "SET ROLE postgres",
    "SELECT * FROM tasuki_join('h0000000000a1', '', '')", "SET SESSION AUTHORIZATION postgres",
    "CREATE TRIGGER mine BEFORE INSERT ON agents EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE TABLE tasuki_workflows.mine (x int)", "UPDATE tasuki_workflows.dbos_migrations SET version = 1",
    "DROP TABLE tasuki_workflows.workflow_status", "SELECT * FROM other_program",
]  # fmt: skip


@pytest.fixture(scope="module")
def host_url(guarded: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a host that joined a fleet with an engine; another program has a table there."""
    folder = tmp_path_factory.mktemp("rights")
    url = guarded.make_owned()
    (folder / "one").mkdir()
    world = World(folder / "one", url)
    world.serve()
    world.kill(15)
    world.close()
    owner = FleetDatabase(url)
    with owner.write() as connection:
        connection.execute(sa.text("CREATE TABLE other_program (secret text)"))
    join_at(folder / "host", owner)
    owner.close()
    return read_url(folder / "host" / "fleet")


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_host_may_not(host_url: str, statement: str) -> None:
    """Its role reads and writes rows; PostgreSQL refuses everything else."""
    with (
        connected(host_url) as connection,
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject)),
    ):
        connection.execute(statement.encode())


def test_a_host_reads_no_other_database(host_url: str, guarded: Postgres) -> None:
    """The rows of another fleet are closed to it."""
    other = guarded.make_owned()
    make_tables(other)
    name = str(sa.make_url(other).database)
    elsewhere = sa.make_url(host_url).set(database=name).render_as_string(hide_password=False)
    with (
        connected(elsewhere) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("SELECT * FROM agents")


def test_a_host_uses_tables_of_later_migrations(host_url: str, guarded: Postgres) -> None:
    """They are its to read and write without another order."""
    name = str(sa.make_url(host_url).database)
    guarded.tell(
        f"SET ROLE {name}_owner; CREATE TABLE later (id serial PRIMARY KEY); RESET ROLE", name
    )
    with connected(host_url) as connection:
        connection.execute("INSERT INTO later DEFAULT VALUES")
        assert (1,) == connection.execute("DELETE FROM later RETURNING id").fetchone()


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM agents", "SELECT * FROM join_tokens", "SELECT * FROM hosts", "INSERT INTO hosts DEFAULT VALUES",
                  "CREATE TABLE mine (x int)", "CREATE ROLE other", "SELECT * FROM tasuki_workflows.workflow_status"],
)  # fmt: skip
def test_a_token_opens_one_function(owner: FleetDatabase, statement: str) -> None:
    """Its role sees no row of the fleet."""
    with (
        connected(token_for(owner).url) as connection,
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)),
    ):
        connection.execute(statement.encode())


def test_preparing_twice_changes_nothing(owner: FleetDatabase) -> None:
    """The groups' rights are the same afterwards."""
    acl = "SELECT relname, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    roles.prepare_roles(owner)
    once_prepared = rows(owner, acl)
    roles.prepare_roles(owner)

    assert once_prepared == rows(owner, acl)
    assert any("tasuki_hosts_" in str(acl) for _, acl in once_prepared)


def test_an_owner_without_createrole_is_told_the_statement(guarded: Postgres) -> None:
    """What a superuser has to run, word for word; afterwards it works."""
    url = guarded.make_owned("NOCREATEROLE")
    make_tables(url)
    database = FleetDatabase(url)
    try:
        with pytest.raises(NotPossible, match="ALTER ROLE") as refused:
            token_for(database)
        (statement,) = re.findall(r"ALTER ROLE [^;]*;", str(refused.value))
        guarded.tell(statement)

        assert token_for(database).role.startswith("tasuki_join_")
    finally:
        database.close()


def test_groups_of_another_role_are_asked_for(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """From PostgreSQL 16 on the owner needs their ADMIN option: the statements are told, and then it works."""
    groups = [f"{prefix}{_number(owner)}" for prefix in ("tasuki_hosts_", "tasuki_joining_")]
    for group in groups:
        guarded.tell(f"CREATE ROLE {group}")
    (version,) = rows(owner, "SELECT current_setting('server_version_num')::int")[0]
    for group in groups if int(str(version)) >= 160000 else ():
        with pytest.raises(NotPossible, match="ADMIN OPTION") as refused:
            token_for(owner)
        (statement,) = re.findall(r"GRANT [^;]*;", str(refused.value))
        assert group in statement
        guarded.tell(statement)

    assert join_at(tmp_path, owner).role.startswith("tasuki_host_")


NO_TOKENS = ["", "\0", "sqlite:////x", "http://x/", "postgresql://", "postgresql://tasuki_join_1@h/x", "x" * 9000,
             "postgresql://tasuki_join_1:p\0w@127.0.0.1/x", "postgresql://tasuki_join_1:p@127.0.0.1:port/x",
             "postgresql://tasuki_join_1:p@127.0.0.1:1/x\nrm"]  # fmt: skip


@pytest.mark.parametrize("text", NO_TOKENS)
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    """Whatever was pasted: a sentence, and nothing is written."""
    with pytest.raises((NotPossible, StoreFailed)):
        join_fleet(text, tmp_path)

    assert [] == list(tmp_path.iterdir())


def test_a_schema_that_is_open_to_all_is_closed_first(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """As PostgreSQL 14 and older make `public`: the statements are told, and afterwards it works."""
    name = str(owner.engine.url.database)
    guarded.tell("ALTER SCHEMA public OWNER TO postgres", name)
    guarded.tell("GRANT CREATE ON SCHEMA public TO PUBLIC", name)
    with pytest.raises(NotPossible, match="as a superuser") as refused:
        token_for(owner)
    for statement in re.findall(r"(?:GRANT|REVOKE) [^;]*;", str(refused.value)):
        guarded.tell(statement, name)
    join_at(tmp_path, owner)
    with owner.write() as connection:
        connection.execute(sa.text("CREATE TABLE later (x int)"))

    with (
        connected(read_url(tmp_path / "fleet")) as host,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        host.execute("CREATE TABLE mine (x int)")


def test_a_file_takes_no_other_host(tmp_path: Path) -> None:
    """A fleet in SQLite says how to get to PostgreSQL."""
    url = build_sqlite_url(tmp_path / "fleet.db")
    make_tables(url)
    database = FleetDatabase(url)
    try:
        with pytest.raises(NotPossible, match="tasuki serve --database-url postgresql://"):
            create_token(database)
    finally:
        database.close()


def test_a_host_makes_no_token(tmp_path: Path, owner: FleetDatabase) -> None:
    """It names the host that may."""
    join_at(tmp_path, owner)
    with owner.write() as connection:
        record_host(connection, FleetHost("h0000000000ff", "workstation"))
    roles.record_role(owner, "h0000000000ff")
    database = FleetDatabase(read_url(tmp_path / "fleet"))
    try:
        with pytest.raises(NotPossible, match="Do it on workstation"):
            token_for(database)
    finally:
        database.close()


# -- leaving ---------------------------------------------------------------------------


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


# -- TLS -------------------------------------------------------------------------------


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
    file, number = guarded.data / "pg_hba.conf", _number(owner)
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


# -- whole hosts -----------------------------------------------------------------------


def printed_command(world: World, *options: str) -> list[str]:
    """The command that `tasuki host add` prints."""
    said = world.tasuki("host", "add", *options)
    (line,) = [line for line in said.splitlines() if line.startswith("tasuki host join")]
    return shlex.split(line)[1:]


def test_two_hosts_of_which_one_joined(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """The second host's role is enough for a server: each hands an agent of its own off."""
    one = world_at(worlds, tmp_path / "one", owner_url, "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    one.serve()
    place = f"127.0.0.1:{guarded.port}"
    said = two.tasuki(*printed_command(one, "--database-host", place, "--label", "build2"))
    two.serve()
    agents = []
    for number, world in enumerate((one, two)):
        world.install()
        world.script(document=[["document", "{path}"], ["say", "written"]])
        persona = {"role": "developer", "name": f"c{number}", "skill": "Be."}
        slug = world.api("POST", "/api/personas", persona)["slug"]
        agents.append(world.worked(world.started(persona=slug)))
    ids = [world.hand_off(agent) for world, agent in zip((one, two), agents, strict=True)]
    for world, id in zip((one, two), ids, strict=True):
        once(world, world.ends(id))
    hosts = one.sql("SELECT label, given_label, role FROM hosts ORDER BY label")

    assert "tasuki serve" in said
    assert ["first", "second"] == [host["label"] for host in hosts]
    assert ["", "build2"] == [host["given_label"] for host in hosts]
    assert hosts[1]["role"].startswith("tasuki_host_")
    assert 2 == len({row["host"] for row in one.agent_rows()})
    assert "not on this one" in refusal(two, f"/api/agents/{agents[0]}/send", {"text": "x"})[1]


def test_retiring_a_host(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Refused while agents live there; then its server does not start until it joins again."""
    one = world_at(worlds, tmp_path / "one", owner_url, "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    one.serve()
    add = ("--database-host", f"127.0.0.1:{guarded.port}")
    two.tasuki(*printed_command(one, *add))
    two.serve()
    two.install()
    agent = two.started(persona="", harness="claude")
    while_it_lives = one.tasuki("host", "retire", "second", code=1)
    two.api("POST", f"/api/agents/{agent}/stop")
    two.kill(15)
    own = one.tasuki("host", "retire", "first", code=1)
    unknown = one.tasuki("host", "retire", "third", code=1)
    done = one.tasuki("host", "retire", "sec")
    refused = two.refused()
    two.database_url = owner_url
    with_the_owners_role = two.refused()
    two.database_url = ""
    two.tasuki(*printed_command(one, *add))
    two.serve()

    assert "1 agent of second has not ended" in while_it_lives
    assert "whose server was asked" in own
    assert "No host 'third'" in unknown
    assert "is retired" in done
    assert "This host was retired" in refused
    assert "This host was retired on" in with_the_owners_role


@pytest.mark.long
def test_a_server_of_a_retired_host_ends(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """It says why, with exit code 1; a server that runs while its host joins is told of."""
    one = world_at(worlds, tmp_path / "one", owner_url, "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    one.serve()
    two.serve()
    command = printed_command(one, "--database-host", f"127.0.0.1:{guarded.port}")
    said = two.tasuki(*command)
    two.kill(15)
    two.serve()
    one.tasuki("host", "retire", "second")
    assert two.server
    code = two.server.wait(20)

    assert "A server runs with what was there before" in said
    assert 1 == code
    assert "it was retired, or joined again elsewhere" in two.output.read_text()


def test_a_host_whose_tasuki_is_newer_than_the_tables_says_where_to_start_first(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Its role may not change them: one sentence with the other host's name, and no traceback."""
    one = world_at(worlds, tmp_path / "one", owner_url, "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    one.serve()
    two.tasuki(*printed_command(one, "--database-host", f"127.0.0.1:{guarded.port}"))
    one.sql("UPDATE tasuki_workflows.dbos_migrations SET version = version - 1")
    engine = two.refused()
    one.sql("UPDATE tasuki_workflows.dbos_migrations SET version = version + 1")
    one.sql("UPDATE fleet_schema SET version_num = '0007'")
    older = two.refused()
    one.sql("UPDATE fleet_schema SET version_num = '9999'")
    newer = two.refused()

    assert "those of its engine are not" in engine
    assert "Start the newer tasuki first on first" in engine
    assert "of revision 0007" in older
    assert "Start the newer tasuki first on first" in older
    assert "created by a newer tasuki (revision 9999)" in newer


def test_a_second_server_of_a_host_under_another_role_is_refused(
    tmp_path: Path, owner: FleetDatabase
) -> None:
    """PostgreSQL hides what it knows of other roles' connections: the sentence names the role."""
    joined = join_at(tmp_path, owner)
    first = AdvisoryClaim(owner.url, FleetHost(joined.id, "x"))
    second = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost(joined.id, "x"))
    other = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost("h0000000000a1", "y"))  # fmt: skip
    first.take()
    other.take()
    try:
        with pytest.raises(Exception, match=f"with the role {owner.engine.url.username}"):
            second.take()

        assert other.is_running(joined.id)
        assert first.is_running("h0000000000a1")
    finally:
        for claim in (first, second, other):
            claim.release()


def test_a_broken_lock_of_a_joined_host_is_taken_again(
    tmp_path: Path, owner: FleetDatabase
) -> None:
    """Its role may end its own connection that PostgreSQL still holds."""
    joined = join_at(tmp_path, owner)
    claim = AdvisoryClaim(normalize_url(read_url(tmp_path / "fleet")), FleetHost(joined.id, "x"))
    claim.take()
    forgotten = claim._connection
    try:
        retry_until(claim._is_taken, 10)

        assert claim._connection is not forgotten
    finally:
        assert forgotten
        forgotten.invalidate()
        forgotten.close()
        claim.release()


# -- where the URL comes from ----------------------------------------------------------


def test_a_url_that_others_can_read_is_refused(
    tmp_path: Path, worlds: ExitStack, owner: FleetDatabase
) -> None:
    """The server says how to mend it; an option and the environment come first."""
    world = world_at(worlds, tmp_path)
    join_at(world.data, owner)
    (world.data / "fleet" / URL_FILE).chmod(0o644)
    said = world.refused()
    chosen = build_sqlite_url(tmp_path / "chosen.db")
    world.env["TASUKI_DATABASE_URL"] = chosen
    world.serve()

    assert "chmod 600" in said
    assert (tmp_path / "chosen.db").exists()


def test_a_host_with_agents_of_its_own_does_not_join(
    tmp_path: Path, worlds: ExitStack, owner: FleetDatabase
) -> None:
    """It says where they are; with --leave-agents they stay in their file."""
    world = world_at(worlds, tmp_path)
    world.serve()
    world.install()
    world.started(persona="", harness="claude")
    world.kill(15)
    url = token_for(owner).url
    said = world.tasuki("host", "join", url, code=3)
    world.tasuki("host", "join", "-", "--leave-agents", input=f"{url}\n")

    history = world.tasuki("handoffs", "prune", "--older-than", "0", "--yes", code=None)

    assert "1 agent that has not ended" in said
    assert "in a database that its server must be asked for" in history
    assert "--leave-agents" in said
    assert read_url(world.data / "fleet").startswith("postgresql://tasuki_host_")
    assert [None] == [row["ended_at"] for row in world.agent_rows()]


def test_a_host_of_another_fleet_is_not_moved_by_accident(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """It names the fleet that it is in."""
    join_at(tmp_path, owner)
    other_url = guarded.make_owned()
    make_tables(other_url)
    other = FleetDatabase(other_url)
    try:
        with pytest.raises(Refused, match=f"in the fleet of .*{owner.engine.url.database} already"):
            join_at(tmp_path, other)
    finally:
        other.close()


@pytest.mark.long
def test_a_server_warns_of_an_unverified_connection(
    tmp_path: Path, worlds: ExitStack, owner_url: str
) -> None:
    """It starts all the same on loopback, without a word; another name is warned of."""
    world = world_at(worlds, tmp_path, owner_url)
    world.serve()
    quiet = world.output.read_text()
    world.kill(15)
    world.database_url = f"{owner_url.replace('127.0.0.1', 'db.invalid')}?hostaddr=127.0.0.1"
    world.serve()

    assert "is not verified" not in quiet
    assert "is not verified" in world.output.read_text()


# -- over ssh --------------------------------------------------------------------------

FAKE_SSH = """#!/bin/sh
# Runs the command on this machine, in the environment of another host.
echo "$@" >> {log}
while [ "$1" != -- ]; do shift; done
shift 2
exec env -i {environment} sh -c "$1"
"""


def install_ssh(world: World, other: World, log: Path) -> None:
    """On the path of one host there is an ssh that leads to the other."""
    environment = shlex.join(f"{name}={value}" for name, value in other.env.items())
    install_script(world, FAKE_SSH.format(log=log, environment=environment))


def install_script(world: World, script: str) -> None:
    """An ssh of a test's own."""
    path = world.folder / "bin" / "ssh"
    path.write_text(script)
    path.chmod(0o755)


def test_a_host_is_added_over_ssh(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """Token and certificates go through standard input: no command line has them. The host then serves, over TLS."""
    verified = f"{owner_url}?sslmode=verify-full&sslrootcert={guarded.folder}/ca.pem"
    one = world_at(worlds, tmp_path / "one", verified.replace("127.0.0.1", "localhost"), "first")
    two = world_at(worlds, tmp_path / "two", name="second")
    install_ssh(one, two, tmp_path / "commands")
    one.serve()
    place = f"localhost:{guarded.port}"
    said = one.tasuki("host", "add", "ann@build2", "--database-host", place, "--ssh-option", "-p2222")  # fmt: skip
    printed = one.tasuki("host", "add", "--database-host", place)
    two.serve()
    commands = (tmp_path / "commands").read_text().splitlines()
    kept = sa.make_url(read_url(two.data / "fleet"))
    uses = "SELECT ssl, usename FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND client_port > 0"
    with connected(guarded.url(str(kept.database))) as connection:
        used = set(connection.execute(uses).fetchall())

    assert "joined the fleet" in said
    assert "--ca FILE" in printed
    assert ["tasuki --version", "tasuki host join -"] == [line.partition("build2 ")[2] for line in commands]  # fmt: skip
    assert all("BatchMode=yes -p2222 -- ann@build2" in line for line in commands)
    assert ("verify-full", f"{two.data}/fleet/database-ca.pem") == (kept.query["sslmode"], kept.query["sslrootcert"])  # fmt: skip
    assert "ok" == two.api("GET", "/health", token=False)["status"]
    assert {(True, kept.username), (True, f"{kept.database}_owner")} == used
    assert "is not verified" not in two.output.read_text()


SSH_FAILURES = {
    "echo 'Host key verification failed.' >&2; exit 255": "compare the key",
    "echo 'ann@box: Permission denied (publickey).' >&2; exit 255": "sign in there without asking",
    "echo 'ssh: Could not resolve hostname box' >&2; exit 255": "Is that its name?",
    "echo 'ssh: connect to host box port 22: Connection timed out' >&2; exit 255": "Is it on",
    "echo 'sh: 1: tasuki: not found' >&2; exit 127": "tasuki was not found on ann@box",
    "echo 'Traceback' >&2; exit 1": "does not work on ann@box",
}


@pytest.mark.parametrize(("script", "sentence"), SSH_FAILURES.items())
def test_a_failure_of_ssh_is_told(
    tmp_path: Path, worlds: ExitStack, script: str, sentence: str
) -> None:
    """What ssh said, and what to do; no token is made for it."""
    world = world_at(worlds, tmp_path)
    install_script(world, f"#!/bin/sh\n{script}\n")

    assert sentence in world.tasuki("host", "add", "ann@box", code=1)


def test_without_ssh_it_says_so(tmp_path: Path, worlds: ExitStack) -> None:
    """The command without USER@BOX is left."""
    world = world_at(worlds, tmp_path)
    path = world.env["PATH"]
    world.env["PATH"] = str(world.folder / "bin")
    said = world.tasuki("host", "add", "ann@box", code=1)
    world.env["PATH"] = path

    assert "ssh is not installed" in said


@pytest.mark.parametrize("target", ["-oProxyCommand=id", "ann@box -p2", "ann@-box", "a;id@box", ""])
def test_a_target_that_is_none_is_refused(tmp_path: Path, worlds: ExitStack, target: str) -> None:
    """It could be an option of ssh, or another command: ssh is not called."""
    world = world_at(worlds, tmp_path)
    install_script(world, f"#!/bin/sh\ntouch {tmp_path / 'called'}\n")

    assert "is no USER@BOX" in world.tasuki("host", "add", "--", target, code=2)
    assert not (tmp_path / "called").exists()


@pytest.mark.long
def test_another_version_there_is_told(
    tmp_path: Path, worlds: ExitStack, owner_url: str, guarded: Postgres
) -> None:
    """It goes on, and what the other side refuses is shown."""
    world = world_at(worlds, tmp_path, owner_url)
    script = 'case "$*" in *--version) echo tasuki 99.0;; *) cat > /dev/null; echo it is full >&2; exit 1;; esac'
    install_script(world, f"#!/bin/sh\n{script}\n")
    world.serve()
    said = world.tasuki("host", "add", "ann@box", "--database-host", f"127.0.0.1:{guarded.port}", code=1)  # fmt: skip

    assert f"has tasuki 99.0, this host {__version__}" in said
    assert "ann@box did not join. It says: it is full" in said


def test_the_command_needs_no_server_to_join(tmp_path: Path, owner: FleetDatabase) -> None:
    """As a program with a terminal's words: what it prints has no password."""
    env = {**os.environ, "TASUKI_DATA": str(tmp_path), "HOME": str(tmp_path)}
    token = token_for(owner)
    done = subprocess.run(
        [TASUKI, "host", "join", "-", "--label", "laptop"], env=env, input=token.url, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    passwords = [sa.make_url(url).password for url in (token.url, read_url(tmp_path / "fleet"))]

    assert 0 == done.returncode, said
    assert not [one for one in passwords if str(one) in said]
    assert "tasuki install claude --fleet" in said
    assert [("laptop",)] == rows(owner, "SELECT given_label FROM hosts")


def test_a_role_without_any_right_says_to_join_again(tmp_path: Path, owner: FleetDatabase) -> None:
    """The owner's groups were lost, as after a restore of the database elsewhere."""
    joined = join_at(tmp_path, owner)
    with owner.write() as connection:
        roles.execute(
            connection, "REVOKE {} FROM {}", f"tasuki_hosts_{_number(owner)}", joined.role
        )
    database = FleetDatabase(read_url(tmp_path / "fleet"))
    try:
        with (
            pytest.raises(ServerFailed, match="Join again"),
            roles.explain_missing_rights(database),
            database.write() as connection,
        ):
            connection.execute(sa.text("SELECT * FROM agents"))
    finally:
        database.close()


def _number(owner: FleetDatabase) -> object:
    return rows(owner, "SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
