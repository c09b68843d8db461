"""The error with which the last turn of an agent ended."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("agents", sa.Column("failure", sa.JSON(none_as_null=True)))
