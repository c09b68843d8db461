"""Which rows of other hosts a host may not write, as PostgreSQL keeps it.

All hosts write into the same tables. A host's role has the host's id in its name, so PostgreSQL knows
whose row is written by whom. Where a row decides what happens on a host, others may not change that:
its key, its agents with their permissions, the handoffs that it carries out. A goal that waits for an
agent names the host that wrote it. Whoever owns the tables is not held up.
"""

import sqlalchemy as sa

_RULES = {
    "hosts": ("id", "role", "public_key"),
    "agents": (
        "host", "harness", "cwd", "session", "thread", "persona", "pane", "window", "pid", "process",
        "process_began", "model", "permission", "arguments", "goal", "token_hash", "adopted",
    ),
    "handoffs": (
        "host", "queue", "agent_id", "persona", "reason", "context", "goal", "harness", "fork", "worktree",
        "branch", "target_host", "move", "step", "attempt", "from_thread", "file_path",
    ),
    "queued_goals": (),
}  # fmt: skip
"""Of each table the columns that only the row's own host writes."""

_BODY = """
CREATE OR REPLACE FUNCTION tasuki_check_row() RETURNS trigger LANGUAGE plpgsql AS $tasuki$
DECLARE
  own text := 'h' || substring(session_user FROM '^tasuki_host_([0-9a-f]{12})$');
  new_row jsonb := to_jsonb(NEW);
  old_row jsonb := CASE TG_OP WHEN 'UPDATE' THEN to_jsonb(OLD) END;
  host text := new_row ->> TG_ARGV[0];
  name text;
BEGIN
  IF TG_TABLE_NAME = 'queued_goals' THEN  -- whoever has the agent asks its policy
    IF (new_row -> 'text', new_row -> 'persona') IS DISTINCT FROM (old_row -> 'text', old_row -> 'persona') THEN
      NEW.host := coalesce(own, '');
    ELSIF old_row IS NOT NULL THEN
      NEW.host := old_row ->> 'host';
    END IF;
    RETURN NEW;
  ELSIF own IS NULL OR host = own THEN
    RETURN NEW;
  ELSIF old_row ->> 'target_host' <> '' AND own IN (old_row ->> 'host', old_row ->> 'target_host')
      AND old_row -> 'target_host' = new_row -> 'target_host' THEN  -- a move, which is signed
    RETURN NEW;
  END IF;
  FOREACH name IN ARRAY TG_ARGV LOOP
    IF new_row -> name IS DISTINCT FROM old_row -> name THEN
      RAISE EXCEPTION 'Only % writes % of this row in %.', host, name, TG_TABLE_NAME USING ERRCODE = '42501';
    END IF;
  END LOOP;
  RETURN NEW;
END
$tasuki$
"""


def keep_own_rows(connection: sa.Connection) -> None:
    """Make the rules, or bring them up to date; SQLite has one host and needs none."""
    if connection.dialect.name == "sqlite":
        return
    connection.exec_driver_sql(_BODY.replace("%", "%%"))
    for table, columns in _RULES.items():
        words = ", ".join(f"'{word}'" for word in ("id" if table == "hosts" else "host", *columns))
        connection.exec_driver_sql(
            f"CREATE OR REPLACE TRIGGER tasuki_own_rows BEFORE INSERT OR UPDATE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION tasuki_check_row({words})"
        )
