"""Views of the fleet that the operator saved under a name: the query of the fleet page."""

import time

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import NoLongerPossible, NotPossible
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.text_safety import shorten_to_line

MOST_VIEWS = 20
MOST_NAME_CHARACTERS = 40
_TABLE = tables.saved_views
_COLUMNS = (_TABLE.c.name, _TABLE.c.query, _TABLE.c.saved_at)


class SavedView(Struct, frozen=True):
    """A saved view."""

    name: str
    query: str
    saved_at: float = 0.0
    """In seconds since 1970; they are listed in this order."""


def list_views(database: FleetDatabase) -> list[SavedView]:
    """List the saved views, oldest first."""
    query = sa.select(*_COLUMNS).order_by(_TABLE.c.saved_at, _TABLE.c.name)
    with database.read() as connection:
        return [SavedView(*row) for row in connection.execute(query)]


def save_view(database: FleetDatabase, name: str, query: str) -> tuple[SavedView, SavedView | None]:
    """Save a view; return it, and the one of the same name that it replaced. Raises NotPossible."""
    view = SavedView(_clean_name(name), query, time.time())
    if not view.name:
        raise NotPossible("A saved view needs a name.")
    with database.write(alone=True) as connection:
        replaced = _take_view(connection, view.name)
        _insert_view(connection, view)
    return view, replaced


def restore_replaced(database: FleetDatabase, view: SavedView, replaced: SavedView) -> None:
    """Put back a view that another one replaced. Raises NoLongerPossible where that was changed since."""
    with database.write(alone=True) as connection:
        if _take_view(connection, view.name) != view:
            raise NoLongerPossible(f"The view {view.name} was changed since: it stays as it is.")
        _insert_view(connection, replaced)


def remove_view(database: FleetDatabase, name: str) -> SavedView | None:
    """Remove a saved view; return it, or None where there is none."""
    with database.write(alone=True) as connection:
        return _take_view(connection, _clean_name(name))


def restore_view(database: FleetDatabase, view: SavedView) -> None:
    """Put a view back that was removed, at its place. Raises NotPossible."""
    with database.write(alone=True) as connection:
        if _take_view(connection, view.name):
            raise NotPossible(f"A view {view.name} was saved since: it stays as it is.")
        _insert_view(connection, view)


def _take_view(connection: sa.Connection, name: str) -> SavedView | None:
    """Remove a view within a transaction and return it."""
    row = connection.execute(sa.select(*_COLUMNS).where(_TABLE.c.name == name)).one_or_none()
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
    return SavedView(*row) if row else None


def _insert_view(connection: sa.Connection, view: SavedView) -> None:
    count = connection.execute(sa.select(sa.func.count()).select_from(_TABLE)).scalar_one()
    if count >= MOST_VIEWS:
        raise NotPossible(f"There are {MOST_VIEWS} saved views: remove one first.")
    values = {"name": view.name, "query": view.query, "saved_at": view.saved_at}
    connection.execute(sa.insert(_TABLE).values(values))


def _clean_name(name: str) -> str:
    """Return a name as it is saved: one line, which both databases take."""
    return shorten_to_line(name.encode("utf-8", "replace").decode(), MOST_NAME_CHARACTERS)
