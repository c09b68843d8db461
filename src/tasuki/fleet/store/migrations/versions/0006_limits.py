"""Usage limits, agents that are stuck, and handoffs to another harness."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns."""
    op.add_column("personas", sa.Column("on_limit", sa.Text, nullable=False, server_default=""))
    op.add_column("agents", sa.Column("limit_text", sa.Text, nullable=False, server_default=""))
    op.add_column("agents", sa.Column("limited_until", sa.Double))
    op.add_column("agents", sa.Column("stuck_at", sa.Double))
    op.add_column("agents", sa.Column("stuck_with", sa.Text, nullable=False, server_default=""))
    op.add_column("handoffs", sa.Column("harness", sa.Text, nullable=False, server_default=""))
