"""The goal of a handoff."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column."""
    op.add_column("handoffs", sa.Column("goal", sa.Text, nullable=False, server_default=""))
