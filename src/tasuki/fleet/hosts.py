"""Identifies this host: an id that is created once in the data folder, and a name for people."""

import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki import __version__
from tasuki.errors import ServerRuns, StoreFailed
from tasuki.files import explain_error, replace_file
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.launch.processes import read_boot_id
from tasuki.text_safety import clean_text, shorten_to_line

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
HOSTS_FILE = "hosts.json"
NO_MACHINE_ID = "-"
"""The key of a machine whose system has no id."""
MOST_LABEL_CHARACTERS = 100

log = logging.getLogger("tasuki.fleet")


class KnownHost(Struct, frozen=True):
    """A machine that used a data folder, as the folder records it."""

    id: str
    """`h` and 12 hexadecimal digits."""
    label: str = ""
    """The name of the machine when its server last started."""
    folder: str = ""
    """The folder of this list, whole path; empty where an older tasuki wrote it."""


class FleetHost(Struct, frozen=True):
    """This host, and the others that used the same data folder."""

    id: str
    label: str
    others: tuple[KnownHost, ...] = ()
    original: str = ""
    """The folder that this one is a copy of, where that is still there; else empty."""


def identify_host(data: Path, machine_ids: Sequence[Path] = MACHINE_IDS) -> FleetHost:
    """Return the host that this machine is for a data folder; the first call creates its id.

    The machine may get another name and keeps its agents. A folder that was copied, or that
    several machines see, knows each machine by a digest of its system's id; machines without
    one count as one. Raises StoreFailed where the file cannot be read or written.
    """
    path = data / HOSTS_FILE
    machine = next(filter(None, map(_read_machine_id, machine_ids)), NO_MACHINE_ID)
    # A digest: the machine's id itself stays on the machine.
    digest = sha256(machine.encode()).hexdigest()[:16]
    known_hosts, key = _read_known(path), NO_MACHINE_ID if machine == NO_MACHINE_ID else digest
    own = known_hosts.get(key) or KnownHost(f"h{secrets.token_hex(6)}")
    original = _find_original(data, own)
    folder = original or os.path.realpath(data)
    own = msgspec.structs.replace(own, label=read_machine_label(), folder=folder)
    if known_hosts.get(key) != own:
        content = json.dumps(msgspec.to_builtins(known_hosts | {key: own}), indent=1).encode()
        try:
            replace_file(path, content)
        except OSError as error:
            raise StoreFailed(
                f"The list of hosts {path} cannot be written: {explain_error(error)}."
            ) from error
    others = tuple(host for name, host in known_hosts.items() if name != key)
    return FleetHost(own.id, own.label, others, original)


def _find_original(data: Path, own: KnownHost) -> str:
    """Find the folder that `data` is a copy of: another one whose list names the same host."""
    folder = own.folder
    if not folder or not os.path.isdir(folder) or os.path.samefile(folder, data):
        return ""
    with suppress(StoreFailed):
        if own.id in {one.id for one in _read_known(Path(folder) / HOSTS_FILE).values()}:
            return folder
    return ""


def read_machine_label() -> str:
    """Return the machine's name for people; any letters, at most `MOST_LABEL_CHARACTERS`."""
    name = clean_text(socket.gethostname()).encode("utf-8", "replace").decode()
    return shorten_to_line(name, MOST_LABEL_CHARACTERS) or "localhost"


def _read_known(path: Path) -> dict[str, KnownHost]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, KnownHost])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreFailed(
            f"The list of hosts {path} cannot be read: {explain_error(error)}."
        ) from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreFailed(
            f"The list of hosts {path} is damaged: {error}. Put it back from a copy; or move it away, "
            "and this host starts as a new one: tasuki serve --moved then takes its agents along."
        ) from error


def _read_machine_id(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return "".join(path.read_text("utf-8").split())
    return ""


def settle_hosts(
    database: FleetDatabase,
    host: FleetHost,
    queue: str,
    is_running: Callable[[str], bool],
    *,
    moved: bool,
) -> list[str]:
    """Record that a server of this host starts, and with `moved` take over its former ids.

    Those are the ids of the machines that used the data folder before, or that this machine had.
    Returns them. Raises ServerRuns where one that the folder knows has a server.
    """
    formers: set[str] = set()
    with database.write(alone=True) as connection:
        record_host(connection, host)
        others = {other.id: other.label for other in host.others}
        others |= _find_former_labels(connection, host)
    for id, label in others.items() if moved else ():
        if not is_running(id):
            formers |= {id}
        elif id in {other.id for other in host.others}:
            raise ServerRuns(
                f"The server of {label} runs on this database: its agents are not taken from it. "
                "End it first, or start without --moved."
            )
    with database.write(alone=True) as connection:
        agents_taken = sum(take_over_host(connection, x, host.id, queue) for x in sorted(formers))
        agents_left = count_alive(connection, [id for id in others if not is_running(id)])
    if agents_taken:
        log.info(
            "%d agents that were recorded under another name now belong to this host.", agents_taken
        )
    if agents_left:
        names = ", ".join(sorted({label or id for id, label in others.items()}))
        log.warning(
            "This data folder was used on %s before. %d agents from there have not ended and are left alone "
            "here. If this is the same machine, or that one is gone: tasuki serve --moved", names, agents_left,
        )  # fmt: skip
    return sorted(formers)


def _find_former_labels(connection: sa.Connection, host: FleetHost) -> dict[str, str]:
    """Find the ids and labels of hosts that may have been this machine but are not in its data folder.

    A file of SQLite has one machine; on PostgreSQL they are those of the same name.
    """
    hosts, agents = tables.hosts.c, tables.agents.c
    labels = {row.id: row.label for row in connection.execute(sa.select(hosts.id, hosts.label))}
    ids = set(connection.execute(sa.select(agents.host).distinct()).scalars()) - {host.id}
    if connection.dialect.name != "sqlite":
        ids = {id for id in ids if labels.get(id) == host.label}
    return {id: labels.get(id, "") for id in sorted(ids)}


def record_host(connection: sa.Connection, host: FleetHost) -> None:
    """Record that a server of this host starts."""
    hosts = tables.hosts
    values: dict[str, Any] = {
        "label": host.label, "version": __version__, "started_at": time.time(),
        "boot_id": read_boot_id(),
    }  # fmt: skip
    own = sa.update(hosts).where(hosts.c.id == host.id)
    if not connection.execute(own.values(epoch=hosts.c.epoch + 1, **values)).rowcount:
        connection.execute(sa.insert(hosts).values(id=host.id, epoch=1, **values))


def take_over_host(connection: sa.Connection, former: str, host: str, queue: str) -> int:
    """Give a former host's agents, handoffs and alerts to a host; return how many agents."""
    agents, handoffs, alerts = tables.agents, tables.handoffs, tables.alerts
    place = {"host": host, "queue": queue}
    connection.execute(sa.update(handoffs).where(handoffs.c.host == former).values(**place))
    connection.execute(sa.update(alerts).where(alerts.c.host == former).values(host=host))
    taken = connection.execute(sa.update(agents).where(agents.c.host == former).values(host=host))
    connection.execute(sa.delete(tables.hosts).where(tables.hosts.c.id == former))
    return taken.rowcount


def count_alive(connection: sa.Connection, hosts: Collection[str]) -> int:
    """Count the agents of some hosts that have not ended."""
    agents = tables.agents
    query = sa.select(sa.func.count()).select_from(agents)
    query = query.where(agents.c.ended_at.is_(None), agents.c.host.in_(sorted(hosts)))
    return int(connection.execute(query).scalar_one())
