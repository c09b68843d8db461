"""Views of the fleet that the operator saved."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Apply the revision."""
    op.create_table(
        "saved_views",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("saved_at", sa.Double, nullable=False),
    )
