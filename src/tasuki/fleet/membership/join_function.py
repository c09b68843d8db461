"""The one function that a token opens: it gives a host its role.

It runs with the rights of the tables' owner, so it trusts nothing that it is given. Its errors are
sentences for whoever joins.
"""

import sqlalchemy as sa
from psycopg import sql

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
