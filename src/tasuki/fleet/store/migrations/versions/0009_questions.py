"""What a waiting agent asks."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column."""
    op.add_column("agents", sa.Column("question", sa.JSON(none_as_null=True)))
