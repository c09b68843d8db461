"""What the hosts of one PostgreSQL may do: two groups of roles for each fleet.

Roles belong to the whole server, so their names hold the number of the fleet's database. A host's
role is in the group of the hosts: it reads and writes the rows of the fleet and of the engine, and
changes no table. A token's role is in the group of those that join: it calls one function, which gives
a host its role. That runs with the rights of the tables' owner, so it trusts nothing that it is given;
its errors are sentences for whoever joins.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from msgspec import Struct
from psycopg import sql
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible, ServerFailed
from tasuki.fleet.handoff.engine import SCHEMA
from tasuki.fleet.store import schema, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.start_errors import HOST_ROLE_PREFIX

HOSTS_PREFIX = "tasuki_hosts_"
JOIN_GROUP_PREFIX = "tasuki_joining_"
DENIED = "42501"
"""The SQLSTATE of a missing right."""
READ_ONLY = ("fleet_schema", "join_tokens")
"""Tables of the fleet that only their owner changes."""
ONE_HOST = (
    "This fleet is kept in a file, which one host uses: no other can join. Move to PostgreSQL: end the server, "
    "make a database (createdb fleet), and start with tasuki serve --database-url postgresql://USER@HOST/fleet. "
    "Its agents and handoffs are not taken along: tasuki docs machines"
)

_RIGHTS = sa.text(
    "SELECT current_user AS name, r.rolsuper AS is_super, r.rolcreaterole AS creates_roles, n.nspname AS schema, "
    "o.rolname AS owner, pg_has_role(current_user, c.relowner, 'USAGE') AS owns, d.oid AS number, d.datname AS database, "
    "current_setting('server_version_num')::int AS version, pg_has_role(current_user, n.nspowner, 'USAGE') AS owns_schema "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner "
    "JOIN pg_roles r ON r.rolname = current_user JOIN pg_database d ON d.datname = current_database() "
    "WHERE c.oid = to_regclass(:table)"
)
_RELATIONS = sa.text(
    "SELECT c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) "
    "AND (c.relkind IN ('r', 'p', 'v') AND (:any OR c.relname = ANY(:own)) OR c.relkind = 'S' AND (:any OR EXISTS ("
    "SELECT FROM pg_depend d JOIN pg_class t ON t.oid = d.refobjid WHERE d.objid = c.oid AND d.deptype IN ('a', 'i') "
    "AND t.relname = ANY(:own))))"
)
"""Tables and sequences of a schema: any, or the `own` ones."""


class RoleRights(Struct, frozen=True):
    """What the role of a connection may do to the fleet's tables, and where they are."""

    name: str
    is_super: bool
    creates_roles: bool
    schema: str
    owner: str
    """The role that the tables belong to."""
    owns: bool
    number: int
    """Of the database."""
    database: str
    version: int
    """Of PostgreSQL: 150000 is 15.0."""
    owns_schema: bool

    @property
    def hosts_group(self) -> str:
        """The group of the hosts' roles."""
        return f"{HOSTS_PREFIX}{self.number}"

    @property
    def join_group(self) -> str:
        """The group of the tokens' roles."""
        return f"{JOIN_GROUP_PREFIX}{self.number}"


def read_rights(connection: sa.Connection, table: str = schema.VERSION_TABLE) -> RoleRights | None:
    """Read what the connection's role may do; None before there are tables."""
    row = connection.execute(_RIGHTS, {"table": table}).mappings().first()
    return RoleRights(**row) if row else None


def build_role_name(host_id: str) -> str:
    """Return the name of a host's role; the table of the hosts is not asked: hosts write to it."""
    return f"{HOST_ROLE_PREFIX}{host_id[1:]}"


def execute(connection: sa.Connection, statement: str, *names: str) -> None:
    """Execute a statement in which each `{}` is a name."""
    run_statement(connection, sql.SQL(statement).format(*map(sql.Identifier, names)))


def require_owner(connection: sa.Connection) -> RoleRights:
    """Return the rights of a role that can make other roles and give them rights.

    Raises NotPossible with what to do, or on which host to do it.
    """
    if connection.dialect.name == "sqlite":
        raise NotPossible(ONE_HOST)
    rights = read_rights(connection)
    if rights is None:
        raise NotPossible(
            "The database has no tables of a fleet yet. Start its server: tasuki serve"
        )
    if not rights.owns and not rights.is_super:
        raise NotPossible(
            f"The fleet's tables belong to the role {rights.owner}, and this server's role {rights.name} may not let "
            f"hosts join or leave. Do it {_describe_owner_host(connection, rights)}."
        )
    if not rights.is_super and not rights.creates_roles:
        raise NotPossible(
            f"The role {rights.name} may not make roles for other hosts. Let it, once, as a superuser of PostgreSQL: "
            f"{_compose(connection, 'ALTER ROLE {} CREATEROLE;', rights.name)}"
        )
    for group in (rights.hosts_group, rights.join_group):
        _check_group(connection, rights, group)
    return rights


def _check_group(connection: sa.Connection, rights: RoleRights, group: str) -> None:
    """From PostgreSQL 16 on only who has a group's ADMIN option makes others its members."""
    query = sa.text(
        "SELECT pg_has_role(current_user, oid, 'MEMBER WITH ADMIN OPTION') FROM pg_roles WHERE rolname = :name"
    )
    is_admin = connection.execute(query, {"name": group}).scalar()
    if is_admin is False and rights.version >= 160000 and not rights.is_super:
        raise NotPossible(
            f"The role {rights.name} may not add members to {group}, which another role made. Let it, once, as a "
            f"superuser of PostgreSQL: {_compose(connection, 'GRANT {} TO {} WITH ADMIN OPTION;', group, rights.name)}"
        )


def _compose(connection: sa.Connection, statement: str, *names: str) -> str:
    raw = connection.connection.driver_connection
    return sql.SQL(statement).format(*map(sql.Identifier, names)).as_string(raw)


def _describe_owner_host(connection: sa.Connection, rights: RoleRights) -> str:
    hosts = tables.hosts.c
    name = sa.func.coalesce(sa.func.nullif(hosts.given_label, ""), hosts.label)
    query = sa.select(name).where(hosts.role == rights.owner).order_by(hosts.started_at.desc())
    labels = list(connection.execute(query).scalars())
    return f"on {' or '.join(labels)}" if labels else f"on a host whose server uses {rights.owner}"


def prepare_roles(database: FleetDatabase) -> RoleRights:
    """Make the two groups, or bring what they may do up to date.

    Raises NotPossible on SQLite, and where the server's role may not do that.
    """
    exists = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name")
    may_connect = sa.text("SELECT has_database_privilege(:name, current_database(), 'CONNECT')")
    with database.write() as connection:
        rights = require_owner(connection)
        schema_name, hosts_group = rights.schema, rights.hosts_group
        for group in (hosts_group, rights.join_group):
            if not connection.execute(exists, {"name": group}).scalar():
                execute(connection, "CREATE ROLE {} NOLOGIN", group)
            if not connection.execute(may_connect, {"name": group}).scalar():
                execute(connection, "GRANT CONNECT ON DATABASE {} TO {}", rights.database, group)
            execute(connection, "GRANT USAGE ON SCHEMA {} TO {}", schema_name, group)
        _allow_rows(connection, rights, schema_name)
        for name in READ_ONLY:
            execute(connection, "REVOKE ALL ON {}.{} FROM {}", schema_name, name, hosts_group)
            execute(connection, "GRANT SELECT ON {}.{} TO {}", schema_name, name, hosts_group)
        if read_rights(connection, f"{SCHEMA}.dbos_migrations"):
            _allow_engine(connection, rights)
        _close_schema(connection, rights)
        build_join_function(connection, schema_name, hosts_group, rights.join_group)
    return rights


def _close_schema(connection: sa.Connection, rights: RoleRights) -> None:
    """Let the owner alone create in the schema; before PostgreSQL 15 everybody may in `public`."""
    if rights.owns_schema or rights.is_super:
        execute(connection, "REVOKE CREATE ON SCHEMA {} FROM PUBLIC", rights.schema)
    query = sa.text("SELECT has_schema_privilege(:group, :schema, 'CREATE')")
    parameters = {"group": rights.hosts_group, "schema": rights.schema}
    if connection.execute(query, parameters).scalar():
        statements = "GRANT CREATE ON SCHEMA {} TO {}; REVOKE CREATE ON SCHEMA {} FROM PUBLIC;"
        names = (rights.schema, rights.name, rights.schema)
        raise NotPossible(
            f"Every role may create tables in the schema {rights.schema} of this database, so a host could, too. Forbid "
            f"that, once, as a superuser of PostgreSQL in the database {rights.database}: "
            f"{_compose(connection, statements, *names)}"
        )


def _allow_rows(connection: sa.Connection, rights: RoleRights, schema_name: str) -> None:
    """Let hosts read and write the rows of every table of tasuki's own in a schema.

    Tables that the same role makes there later are included. The fleet's schema may hold tables of
    other programs: they are not.
    """
    group = rights.hosts_group
    own = [*tables.metadata.tables, schema.VERSION_TABLE] if schema_name == rights.schema else []
    parameters = {"schema": schema_name, "own": own, "any": not own}
    for name, kind in connection.execute(_RELATIONS, parameters).all():
        what = "USAGE, SELECT ON SEQUENCE" if kind == "S" else "SELECT, INSERT, UPDATE, DELETE ON"
        execute(connection, f"GRANT {what} {{}}.{{}} TO {{}}", schema_name, name, group)
    for what in ("SELECT, INSERT, UPDATE, DELETE ON TABLES", "USAGE, SELECT ON SEQUENCES"):
        statement = f"ALTER DEFAULT PRIVILEGES IN SCHEMA {{}} GRANT {what} TO {{}}"
        execute(connection, statement, schema_name, group)


def _allow_engine(connection: sa.Connection, rights: RoleRights) -> None:
    execute(connection, "GRANT USAGE ON SCHEMA {} TO {}", SCHEMA, rights.hosts_group)
    _allow_rows(connection, rights, SCHEMA)
    migrations = (SCHEMA, "dbos_migrations", rights.hosts_group)
    execute(connection, "REVOKE INSERT, UPDATE, DELETE ON {}.{} FROM {}", *migrations)
    for statement in (
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {} TO {}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT EXECUTE ON FUNCTIONS TO {}",
    ):
        execute(connection, statement, SCHEMA, rights.hosts_group)


def record_role(database: FleetDatabase, host_id: str) -> None:
    """Record with which role of PostgreSQL a host works; nothing on SQLite."""
    if database.is_sqlite:
        return
    with database.write() as connection:
        update_row(connection, tables.hosts, host_id, role=sa.cast(sa.func.current_user(), sa.Text))


@contextmanager
def explain_missing_rights(database: FleetDatabase) -> Iterator[None]:
    """Raise ServerFailed with what to do where a host's role would have to change tables.

    That is where the host's tasuki, or its engine, is newer than the tables.
    """
    try:
        yield
    except (DBAPIError, ServerFailed) as error:
        cause = error if isinstance(error, DBAPIError) else error.__cause__
        if getattr(getattr(cause, "orig", None), "sqlstate", "") != DENIED:
            raise
        sentence = _describe_missing_rights(database)
        if not sentence:
            raise
        raise ServerFailed(sentence) from error


def _describe_missing_rights(database: FleetDatabase) -> str:
    with database.read() as connection:
        rights = read_rights(connection)
        if rights is None or rights.owns or rights.is_super:
            return ""
        try:
            revision = schema.read_revision(connection)
            where = _describe_owner_host(connection, rights)
        except DBAPIError:
            return (
                f"The role {rights.name} may not read the fleet's tables, which belong to {rights.owner}. Join again: "
                "tasuki host add, where the server of that role runs, prints how."
            )
    known = f"of revision {revision}"
    if revision == schema.NEWEST:
        known = "up to date, but those of its engine are not, or not yet its own to use"
    return (
        f"The fleet's tables are {known}; this tasuki works with revision {schema.NEWEST}, and the role {rights.name} may "
        f"not change tables. Start the newer tasuki first {where}: its role {rights.owner} owns them."
    )


REFUSED = "TA001"
"""The SQLSTATE of its refusals."""

_BODY = """
CREATE OR REPLACE FUNCTION {schema}.tasuki_join(host_id text, label text, verifier text)
RETURNS TABLE (role_name text, database_name text, group_name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tasuki$
#variable_conflict use_column
DECLARE
  token record;
  wanted text;
  given text;
BEGIN
  SELECT t.role, t.label, t.ends_at, t.used_at INTO token
    FROM {schema}.join_tokens t WHERE t.role = session_user FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'This role is no token of the fleet.' USING ERRCODE = 'TA001';
  ELSIF token.used_at IS NOT NULL THEN
    RAISE EXCEPTION 'The token was used already.' USING ERRCODE = 'TA001';
  ELSIF token.ends_at < extract(epoch FROM clock_timestamp()) THEN
    RAISE EXCEPTION 'The token has expired.' USING ERRCODE = 'TA001';
  ELSIF tasuki_join.host_id IS NULL OR tasuki_join.host_id !~ '^h[0-9a-f]{{12}}$' THEN
    RAISE EXCEPTION 'The id of the host is not one.' USING ERRCODE = 'TA001';
  ELSIF tasuki_join.label IS NULL OR length(tasuki_join.label) > 100 OR tasuki_join.label ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'The label of the host is too long, or has control characters.' USING ERRCODE = 'TA001';
  ELSIF tasuki_join.verifier IS NULL OR tasuki_join.verifier
      !~ '^SCRAM-SHA-256[$][0-9]{{4,6}}:[A-Za-z0-9+/=]{{16,64}}[$][A-Za-z0-9+/=]{{44}}:[A-Za-z0-9+/=]{{44}}$' THEN
    RAISE EXCEPTION 'The password of the host is not given as a SCRAM verifier.' USING ERRCODE = 'TA001';
  ELSIF EXISTS (
    SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.classid::bigint = ('x7a51' || substr(tasuki_join.host_id, 2, 4))::bit(32)::bigint
      AND l.objid::bigint = ('x' || substr(tasuki_join.host_id, 6, 8))::bit(32)::bigint
  ) THEN
    RAISE EXCEPTION 'A server of this host runs on the database. End it first.' USING ERRCODE = 'TA001';
  END IF;
  wanted := 'tasuki_host_' || substr(tasuki_join.host_id, 2);
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = wanted) THEN
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L', wanted, tasuki_join.verifier);
    EXECUTE format('GRANT %I TO %I', {group}, wanted);
  ELSIF NOT EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
      WHERE g.rolname = {group} AND r.rolname = wanted
  ) THEN
    RAISE EXCEPTION 'This host is in another fleet of the same PostgreSQL. Retire it there first, or join with another data folder.'
      USING ERRCODE = 'TA001';
  ELSE
    EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', wanted, tasuki_join.verifier);
  END IF;
  IF {name} <> 'public' THEN
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET search_path = %I', wanted, current_database(), {name});
  END IF;
  given := coalesce(nullif(tasuki_join.label, ''), token.label);
  INSERT INTO {schema}.hosts (id, label, version, started_at, given_label, role)
    VALUES (tasuki_join.host_id, coalesce(nullif(given, ''), tasuki_join.host_id), '',
            extract(epoch FROM clock_timestamp()), given, wanted)
    ON CONFLICT (id) DO UPDATE SET role = excluded.role, retired_at = NULL,
      given_label = coalesce(nullif(excluded.given_label, ''), hosts.given_label);
  UPDATE {schema}.join_tokens t SET used_at = extract(epoch FROM clock_timestamp()), host = tasuki_join.host_id
    WHERE t.role = token.role;
  EXECUTE format('ALTER ROLE %I NOLOGIN', token.role);
  RETURN QUERY SELECT wanted, current_database()::text, {group}::text;
END
$tasuki$
"""


def build_join_function(
    connection: sa.Connection, schema_name: str, hosts_group: str, join_group: str
) -> None:
    """Make the function, or bring it up to date; only the tokens' group may call it."""
    schema = sql.Identifier(schema_name)
    body = sql.SQL(_BODY).format(
        schema=schema, group=sql.Literal(hosts_group), name=sql.Literal(schema_name)
    )
    signature = sql.SQL("{}.tasuki_join(text, text, text)").format(schema)
    for statement in (
        body,
        sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(signature),
        sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(signature, sql.Identifier(join_group)),
    ):
        run_statement(connection, statement)


def run_statement(connection: sa.Connection, statement: sql.Composable) -> None:
    """Run a statement that is composed of names and values."""
    raw = connection.connection.driver_connection
    connection.exec_driver_sql(statement.as_string(raw).replace("%", "%%"))
