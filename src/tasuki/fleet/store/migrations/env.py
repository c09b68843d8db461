"""Runs the migrations on the connection that `schema.upgrade` opened; Alembic loads this file."""

from alembic import context

from tasuki.fleet.store.schema import VERSION_TABLE
from tasuki.fleet.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
