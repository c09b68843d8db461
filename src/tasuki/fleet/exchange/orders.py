"""Orders of one host to another: durable, carried out once begun, also after a crash.

An order is a workflow on the queue of the host that it is for. It waits there until that host takes
it. An order that no host took in time is withdrawn, so nothing happens later to an agent of a host
that was asleep.
"""

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import DBAPIError

from tasuki.errors import HostAway, TasukiError
from tasuki.fleet.exchange.gate import ORDER_SECONDS, HostGate
from tasuki.fleet.exchange.host_list import check_reachable, load_host
from tasuki.fleet.exchange.requests import open_answer, pack_error
from tasuki.fleet.handoff.engine import ORDER_LOOK_SECONDS, HandoffEngine
from tasuki.fleet.store.database import FleetDatabase, is_temporary
from tasuki.fleet.store.failures import ServerClosing

BEGIN_SECONDS = 15.0
"""How long a host may take to begin an order."""
END_SECONDS = 120.0
"""How long it may take to carry it out before the asker is told that it goes on."""

logger = logging.getLogger("tasuki.fleet")


class HostOrders:
    """Gives orders to other hosts, and waits for their results."""

    def __init__(self, database: FleetDatabase, engine: HandoffEngine, gate: HostGate) -> None:
        self.database = database
        self.engine = engine
        self.gate = gate

    def give(self, host: str, name: str, arguments: dict[str, Any], *, alone: str = "") -> Any:
        """Give an order and return its result.

        While an order with the same words in `alone` is open, that one is waited for. The host itself
        knows the key of a text: what was withdrawn or refused can be ordered again with it. Raises
        HostAway, and what the other host raised.
        """
        label = check_reachable(load_host(self.database, host)).label
        wanted = f"order-{secrets.token_hex(16)}"
        signed = self.gate.sign(host, wanted, name, arguments)
        id = self.engine.give_order(host, wanted, name, signed, alone)
        deadline, is_begun = time.monotonic() + BEGIN_SECONDS, False
        while True:
            status = self.engine.read_order(id)
            if status.state == "done":
                if not alone:  # others may wait for the same one
                    self._forget(id)
                return open_answer(status.result)
            if status.state == "gone":
                raise HostAway(
                    f"The host {label} gave the order up. Nothing more is done. Try again."
                )
            if status.state == "begun" and not is_begun:
                deadline, is_begun = time.monotonic() + END_SECONDS, True
            if time.monotonic() > deadline:
                break
            time.sleep(ORDER_LOOK_SECONDS)
        if not is_begun and self.engine.withdraw_order(id):
            if not alone:
                self._forget(id)
            raise HostAway(
                f"The host {label} did not take the order within {BEGIN_SECONDS:.0f} s, so it was withdrawn: nothing was "
                "done, and nothing will be. Try again."
            )
        raise HostAway(
            f"The host {label} has begun the order and has not said how it ended: it goes on when the host does, and "
            "nothing is done twice. Look at the agent before you order something else."
        )

    def _forget(self, id: str) -> None:
        """Delete an order whose end is known; one that is left is deleted once it is old."""
        with suppress(DBAPIError):
            self.engine.forget_order(id)

    def leave(self, host: str, name: str, arguments: dict[str, Any], key: str) -> None:
        """Leave an order for a host, whenever it comes back; do not wait for it."""
        id = f"order-{key}"
        self.engine.give_order(host, id, name, self.gate.sign(host, id, name, arguments), "")


def carry_out_order(
    gate: HostGate,
    carry_out: Callable[[str, str, dict[str, Any]], Any],
    wait: Callable[[float], bool],
    id: str,
    name: str,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """Carry out an order of another host; return its result, or its error, as JSON values.

    `gate` decides whether it is carried out at all. While the database is away it waits and starts over; `wait` sleeps and tells whether the server
    ends.
    """
    checked: dict[str, Any] | None = None
    seconds = float("inf") if name == "undo_move" else ORDER_SECONDS  # it waits for a host
    while True:
        try:
            if checked is None:
                checked = gate.check(id, name, arguments, seconds)
            return {"value": carry_out(id, name, checked)}
        except TasukiError as error:
            return pack_error(error)
        except DBAPIError as error:
            if not is_temporary(error):
                logger.exception("An order of another host: %s", name)
                return pack_error(TasukiError(f"The database refused it: {error.orig}"))
            if wait(1.0):
                raise ServerClosing from error
        except Exception as error:
            logger.exception("An order of another host: %s", name)
            return pack_error(TasukiError(f"An error in tasuki itself: {type(error).__name__}."))
