"""The browsers that get notifications while they show no page."""

import time
from collections.abc import Collection
from urllib.parse import urlsplit

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import NotPossible, UsageError
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase

IDLE_SECONDS = 7 * 86400.0
"""How long a browser stays signed in without a visit."""
MOST_SUBSCRIPTIONS = 100
"""Subscriptions of one server; the oldest goes first."""
_TABLE = tables.push_subscriptions


class PushSubscription(Struct, frozen=True):
    """Where a browser can be reached, as its push service and it agreed. Keys are base64url."""

    endpoint: str
    """Address of the push service. It is a secret: who knows it can send to it."""
    public_key: str
    secret: str
    session_id: int | None = None
    """The session of that browser; None where a proxy signs it in."""
    proxy_user: str = ""

    @property
    def service(self) -> str:
        """The name of the push service."""
        return urlsplit(self.endpoint).hostname or "?"


def add_subscription(database: FleetDatabase, host: str, subscription: PushSubscription) -> None:
    """Add a browser, or renew what is known of it. Raises UsageError for keys that are none."""
    from tasuki.fleet.push.encryption import SECRET_BYTES, decode_text, load_point

    try:
        load_point(decode_text(subscription.public_key))
        is_secret = len(decode_text(subscription.secret)) == SECRET_BYTES
    except ValueError:
        is_secret = False
    if not is_secret:
        raise UsageError("The browser's keys for notifications cannot be read.")
    values = {
        "public_key": subscription.public_key, "secret": subscription.secret, "host": host,
        "session_id": subscription.session_id, "proxy_user": subscription.proxy_user, "made_at": time.time(),
    }  # fmt: skip
    same = _TABLE.c.endpoint == subscription.endpoint
    with database.write() as connection:
        connection.execute(sa.delete(_TABLE).where(same))
        connection.execute(sa.insert(_TABLE).values(endpoint=subscription.endpoint, **values))
        own = sa.select(_TABLE.c.id).where(_TABLE.c.host == host)
        newest = connection.execute(own.order_by(_TABLE.c.id.desc()).limit(MOST_SUBSCRIPTIONS))
        kept = list(newest.scalars())
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.host == host, _TABLE.c.id.not_in(kept)))


def remove_subscription(database: FleetDatabase, endpoint: str) -> None:
    """Remove a browser; do nothing where it is not known."""
    with database.write() as connection:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.endpoint == endpoint))


def list_subscriptions(
    database: FleetDatabase, host: str, users: Collection[str]
) -> list[PushSubscription]:
    """List the browsers of a server that are still signed in, and forget the others.

    `users` are those whom a proxy may sign in.
    """
    sessions, now = tables.browser_sessions, time.time()
    is_open = sa.exists().where(
        sessions.c.id == _TABLE.c.session_id, sessions.c.ends_at > now,
        sessions.c.used_at > now - IDLE_SECONDS,
    )  # fmt: skip
    is_user = _TABLE.c.session_id.is_(None) & _TABLE.c.proxy_user.in_(sorted(users))
    is_own = _TABLE.c.host == host
    columns = [_TABLE.c[name] for name in PushSubscription.__struct_fields__]
    with database.read() as connection:
        if connection.execute(sa.select(_TABLE.c.id).where(is_own).limit(1)).first() is None:
            return []
    with database.write() as connection:
        connection.execute(sa.delete(_TABLE).where(is_own, ~is_open, ~is_user))
        rows = connection.execute(sa.select(*columns).where(is_own).order_by(_TABLE.c.id)).all()
    return [PushSubscription(*row) for row in rows]


def check_endpoint(endpoint: str) -> None:
    """Raise NotPossible where an address is none of a push service."""
    place = urlsplit(endpoint)
    if place.scheme != "https" or not place.hostname or place.username or "\\" in endpoint:
        raise NotPossible("The address of a push service must begin with https://.")
