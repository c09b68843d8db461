"""What other hosts may order here: this host's own file decides, and orders are signed.

Hosts share one database, in which each may write rows for any other. So a host signs what it orders
with a key of its own, whose public half is in its row of the table `hosts`; `schema.py` keeps
others from changing that. What another host may do here is in `host-policy.toml` in this host's data
folder, where no database reaches it.
"""

import json
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import Refused, StoreFailed
from tasuki.files import explain_error, replace_file
from tasuki.fleet.exchange.host_list import build_database_clock, read_labels
from tasuki.fleet.orders.order import Deed, list_deeds
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetHandoff, MovePlan

POLICY_FILE, KEY_FILE = "host-policy.toml", "host-key"
ORDER_SECONDS = 86400.0
"""How old an order may be: one that was begun goes on after its host was off."""
QUESTION_SECONDS = 30.0
"""How old a question may be; one that waited longer is deleted without an answer."""


class HostRules(Struct, frozen=True, forbid_unknown_fields=True):
    """What a host may do here, and the permission modes with which it may have agents started.

    None: as the default says. `*` in `permissions`: every mode, and further arguments.
    """

    may: tuple[Deed, ...] | None = None
    permissions: tuple[str, ...] | None = None


class HostPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of every other host, and by its id those of one in particular."""

    default: HostRules = HostRules(get_args(Deed), ("default", "plan"))
    hosts: dict[str, HostRules] = {}


class OrderSignature(Struct, frozen=True):
    """Who gave an order, when by the database's clock, and the signature in hexadecimal digits."""

    host: str
    at: float
    proof: str


class HostGate:
    """Signs this host's orders, and checks those of others."""

    def __init__(self, database: FleetDatabase, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self._known: dict[str, float] = {}
        self._lock = threading.Lock()

    def read_key(self) -> Any:
        """Read this host's private key; the first call creates it. Raises StoreFailed."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        path = self.folder / KEY_FILE
        try:
            if not path.exists():
                replace_file(path, Ed25519PrivateKey.generate().private_bytes_raw())
            return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        except ValueError as error:
            raise StoreFailed(f"{path} holds no key. Remove it: the server makes a new one.") from error  # fmt: skip
        except OSError as error:
            raise StoreFailed(f"{path}: {explain_error(error)}.") from error

    def publish_key(self) -> None:
        """Write the public half into this host's row; nothing on SQLite, which has one host."""
        if not self.database.is_sqlite:
            key = self.read_key().public_key().public_bytes_raw().hex()
            with self.database.write() as connection:
                update_row(connection, tables.hosts, self.database.host, public_key=key)

    def sign(self, receiver: str, id: str, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of an order with the signature of this host, under `signed`."""
        host = self.database.host
        with self.database.read() as connection:
            now = float(connection.execute(sa.select(build_database_clock(connection))).scalar_one())  # fmt: skip
        proof = self.read_key().sign(_encode(host, receiver, id, kind, now, data)).hex()
        return {**data, "signed": {"host": host, "at": now, "proof": proof}}

    def find_sender(self, receiver: str, id: str, kind: str, data: Mapping[str, Any]) -> tuple[str, float]:  # fmt: skip
        """Find who signed an order, and how old it is in seconds. Raises Refused for nobody."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        hosts = tables.hosts.c
        plain = {name: value for name, value in data.items() if name != "signed"}
        try:
            signature = msgspec.convert(data.get("signed"), OrderSignature)
            with self.database.read() as connection:
                query = sa.select(hosts.public_key, build_database_clock(connection).label("now"))
                mine = (hosts.id == signature.host) & hosts.retired_at.is_(None)
                row = connection.execute(query.where(mine)).one()
            message = _encode(signature.host, receiver, id, kind, signature.at, plain)
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(row.public_key))
            key.verify(bytes.fromhex(signature.proof), message)
        except (sa.exc.NoResultFound, ValueError, InvalidSignature) as error:
            raise Refused(
                f"{self._describe()} takes no order that no host of the fleet has signed. If it came from a host with an "
                "older tasuki, upgrade that."
            ) from error
        return signature.host, row.now - signature.at

    def check(self, id: str, kind: str, data: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Check an order of another host: signed, not older than `seconds`, allowed, and new.

        Returns its data. Raises Refused with the rule.
        """
        sender, age = self.find_sender(self.database.host, id, kind, data)
        self.check_rules(sender, list_deeds(kind, data), data.get("data") or {})
        now = time.monotonic()
        with self._lock:
            self._known = {known: end for known, end in self._known.items() if end > now}
            if age > seconds or id in self._known:
                raise Refused(
                    f"{self._describe()} was given this order before, or too long ago, so it does nothing now."
                )
            self._known[id] = now + seconds
        return {name: value for name, value in data.items() if name != "signed"}

    def check_rules(self, sender: str, deeds: Iterable[Deed], data: Mapping[str, Any]) -> None:
        """Raise Refused where the policy does not let a host do something."""
        may = self._find_rules(sender, "may")
        for deed in deeds:
            if deed not in may:
                self._refuse(f'refuses "{deed}" from', sender, "may", [*may, deed])
        self.check_permission(sender, data.get("permission") or "", data.get("arguments"))

    def check_permission(self, sender: str, permission: str, arguments: Any) -> None:
        """Raise Refused where another host may have no agent started with these rights."""
        given = self._find_rules(sender, "permissions")
        if sender == self.database.host or "*" in given:
            return
        if arguments:
            self._refuse("starts no agent with further arguments for", sender, "permissions", ["*"])
        if permission and permission not in given:
            what = f"starts no agent with the permission mode {permission!r} for"
            self._refuse(what, sender, "permissions", [*given, permission])

    def _refuse(self, what: str, sender: str, rule: str, needed: list[str]) -> NoReturn:
        raise Refused(
            f"{self._describe()} {what} {self._describe(sender)}: its policy does not allow it. To allow it, write under "
            f"[hosts.{sender}] in {self.folder / POLICY_FILE} there: {rule} = {json.dumps(needed)}"
        )

    def check_move(self, handoff: FleetHandoff, plan: MovePlan) -> None:
        """Raise Refused for a move that nobody ordered who may."""
        data = {"agent_id": handoff.agent_id, "signed": plan.signed}
        sender, _ = self.find_sender(handoff.target_host, handoff.id, "move", data)
        if sender != self.database.host:
            self.check_rules(sender, ("move",), {})

    def _find_rules(self, sender: str, rule: Literal["may", "permissions"]) -> tuple[str, ...]:
        path, policy = self.folder / POLICY_FILE, HostPolicy()
        try:
            policy = msgspec.toml.decode(path.read_bytes(), type=HostPolicy)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise Refused(
                f"{path} cannot be used, so no other host may do anything here: {error}. How to write it: tasuki docs machines"
            ) from error
        for rules in (policy.hosts.get(sender), policy.default, HostPolicy().default):
            if rules is not None and (found := getattr(rules, rule)) is not None:
                return tuple(found)
        return ()

    def _describe(self, host: str = "") -> str:
        """Describe this host, or another one, by the name that people know it by."""
        id = host or self.database.host
        label = read_labels(self.database, [id]).get(id, id)
        return f"{'the' if host else 'The'} host {label}"


def _encode(*words: Any) -> bytes:
    return msgspec.json.encode(words, order="deterministic")
