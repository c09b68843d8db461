"""What the roles of hosts and of tokens may do, and what they may not."""

import re
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from databases import Postgres, make_tables
from fleets import World
from joins import connected, join_at, read_number, rows, token_for
from selection import by_default

from tasuki.errors import NotPossible, ServerFailed, StoreFailed
from tasuki.fleet.hosts import FleetHost, record_host
from tasuki.fleet.membership import roles
from tasuki.fleet.membership.join import join_fleet
from tasuki.fleet.membership.tokens import create_token
from tasuki.fleet.membership.urls import read_url
from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url

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


@pytest.mark.parametrize("statement", by_default(FORBIDDEN, FORBIDDEN[0]))
def test_a_host_may_not(host_url: str, statement: str) -> None:
    """Its role reads and writes rows; PostgreSQL refuses everything else."""
    with (
        connected(host_url) as connection,
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject)),
    ):
        connection.execute(statement.encode())


@pytest.mark.long
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


@pytest.mark.long
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
    "statement", by_default(["SELECT * FROM agents", "SELECT * FROM join_tokens", "SELECT * FROM hosts", "INSERT INTO hosts DEFAULT VALUES",
                             "CREATE TABLE mine (x int)", "CREATE ROLE other", "SELECT * FROM tasuki_workflows.workflow_status"],
                            "SELECT * FROM agents"),
)  # fmt: skip
def test_a_token_opens_one_function(owner: FleetDatabase, statement: str) -> None:
    """Its role sees no row of the fleet."""
    with (
        connected(token_for(owner).url) as connection,
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable)),
    ):
        connection.execute(statement.encode())


@pytest.mark.long
def test_preparing_twice_changes_nothing(owner: FleetDatabase) -> None:
    """The groups' rights are the same afterwards."""
    acl = "SELECT relname, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    roles.prepare_roles(owner)
    once_prepared = rows(owner, acl)
    roles.prepare_roles(owner)

    assert once_prepared == rows(owner, acl)
    assert any("tasuki_hosts_" in str(acl) for _, acl in once_prepared)


@pytest.mark.long
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


@pytest.mark.long
def test_groups_of_another_role_are_asked_for(
    tmp_path: Path, owner: FleetDatabase, guarded: Postgres
) -> None:
    """From PostgreSQL 16 on the owner needs their ADMIN option: the statements are told, and then it works."""
    groups = [f"{prefix}{read_number(owner)}" for prefix in ("tasuki_hosts_", "tasuki_joining_")]
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


@pytest.mark.long
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


def test_a_role_without_any_right_says_to_join_again(tmp_path: Path, owner: FleetDatabase) -> None:
    """The owner's groups were lost, as after a restore of the database elsewhere."""
    joined = join_at(tmp_path, owner)
    with owner.write() as connection:
        roles.execute(
            connection, "REVOKE {} FROM {}", f"tasuki_hosts_{read_number(owner)}", joined.role
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
