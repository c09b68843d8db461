"""The tables of the fleet, brought up to date by the migrations in `migrations/`.

Alembic is imported where something is to be done, which a start seldom finds: it holds 11 MB.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tasuki.errors import StoreFailed
from tasuki.fleet.copies import copy_file
from tasuki.fleet.database import Database

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).with_name("migrations")
NEWEST = "0005"
"""The revision that the code works with; that of the last migration."""
log = logging.getLogger("tasuki.fleet")
VERSION_TABLE = "fleet_schema"
"""Holds the revision of the tables; not Alembic's own name, which another program may use."""


def upgrade(database: Database) -> None:
    """Make the tables, or bring older ones up to date, in one transaction. Of SQLite a copy is kept.

    Two that do it at once wait for each other. Raises StoreFailed where the tables were made by a
    newer tasuki; nothing is changed then.
    """
    with database.read() as connection:
        before = revision(connection)
        if before == NEWEST:
            return
    from alembic import command

    config = configuration()
    if before:
        with database.read() as connection:
            _refuse_newer(connection, config)
        _keep_copy(database, before)
    with database.write() as connection:
        _refuse_newer(connection, config)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _keep_copy(database: Database, before: str) -> None:
    """Copy the tables before they are changed; of PostgreSQL say what does. No change without a copy."""
    if database.is_sqlite:
        path = copy_file(database.engine, before)
        log.info("The tables are brought from %s to %s. As they were: %s", before, NEWEST, path)
    else:
        log.info(
            "The tables are brought from %s to %s. Of PostgreSQL tasuki makes no copy: pg_dump does.",
            before, NEWEST,
        )  # fmt: skip


def configuration() -> "Config":
    """What Alembic is told; `attributes["connection"]` is what the migrations run on."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def revision(connection: sa.Connection) -> str:
    """The revision that the tables have; empty where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return ""
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
    return connection.execute(sa.select(version.c.version_num)).scalars().first() or ""


def _refuse_newer(connection: sa.Connection, config: "Config") -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if (found := revision(connection)) and found not in known:
        where = connection.engine.url.render_as_string(hide_password=True)
        raise StoreFailed(
            f"The fleet's tables in {where} were made by a newer tasuki (revision {found}). "
            "Upgrade this one, or name another database: tasuki serve --database-url"
        )
