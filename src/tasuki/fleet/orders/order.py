"""What an order is: one function, carried out by the host that it concerns.

Whoever calls it need not know which host that is. Here it is a call; on another host it is a signed
message. A durable order waits there until the host takes it, and is carried out again after a crash,
with the same id; any other is answered within seconds or not at all. An order with an address is a
route of the HTTP API too, and a form of the dashboard may be sent there.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from tasuki.errors import NotPossible

Deed = Literal["look", "send", "keys", "start", "stop", "hand_off", "move"]
"""What an order is to the policy of the host that carries it out."""
P = ParamSpec("P")
R = TypeVar("R")


class OrderGiver(Protocol):
    """What gives orders to other hosts."""

    @property
    def host(self) -> str:
        """The id of this host."""

    def give_order(
        self, host: str, name: str, message: dict[str, Any], seconds: float, alone: str
    ) -> Any:
        """Give an order to another host and return its result, a JSON value."""


F = TypeVar("F", bound=OrderGiver)


@dataclass(eq=False, repr=False)
class HostOrder(Generic[F, P, R]):
    """An order: a call gives it to its host and returns the result."""

    function: Callable[Concatenate[F, P], R]
    deed: Deed
    choose_host: Callable[..., str]
    at: str
    seconds: float
    is_alone: bool

    def __post_init__(self) -> None:
        self.name = self.function.__name__

    def __call__(self, fleet: F, /, *args: P.args, **words: P.kwargs) -> R:
        """Give the order to its host; return its result. Raises HostAway, and what it raises."""
        given = dict(self.signature.bind(fleet, *args, **words).arguments)
        del given["fleet"]
        host = self.choose_host(fleet, **given)
        if host == fleet.host:
            return self.function(fleet, *args, **words)
        alone = f"{self.name}-{given['id']}" if self.is_alone else ""
        message = msgspec.to_builtins(given)
        result = fleet.give_order(host, self.name, message, self.seconds, alone)
        converted: R = msgspec.convert(result, self.types["return"])
        return converted

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's parameters; the first one is called `fleet`."""
        return inspect.signature(self.function)

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the parameters, and of what is returned."""
        return typing.get_type_hints(self.function)


ORDERS: dict[str, HostOrder[Any, ..., Any]] = {}
"""Every order by its name."""


def order(
    deed: Deed,
    choose_host: Callable[..., str],
    *,
    at: str = "",
    seconds: float = 0.0,
    is_alone: bool = False,
) -> Callable[[Callable[Concatenate[F, P], R]], HostOrder[F, P, R]]:
    """Make a function an order.

    `choose_host` takes its arguments by name, and returns the id of the host that carries it out.
    `at` is its address below `/api`. `seconds` is how long an answer is waited for; a durable order
    has none. While one that `is_alone` is open for an agent, that one is waited for. The parameter
    `order_id` is filled in with the id of an order of another host.
    """

    def register(function: Callable[Concatenate[F, P], R]) -> HostOrder[F, P, R]:
        made = HostOrder(function, deed, choose_host, at, seconds, is_alone)
        ORDERS[made.name] = made
        return made

    return register


def carry_out(fleet: Any, order_id: str, name: str, message: Mapping[str, Any]) -> Any:
    """Carry out an order of another host; return its result, a JSON value. Raises TasukiError."""
    if name not in ORDERS:
        raise NotPossible(f"This host runs a tasuki that does not know {name!r}. Upgrade it.")
    wanted, types = ORDERS[name], ORDERS[name].types
    try:
        words = {n: msgspec.convert(v, types[n]) for n, v in message.items() if n in types}
    except msgspec.ValidationError as error:
        raise NotPossible(
            f"This host reads the order {name!r} otherwise: {error}. Run the same tasuki on both hosts."
        ) from error
    if "order_id" in types:
        words["order_id"] = order_id
    return msgspec.to_builtins(wanted.function(fleet, **words))


def list_deeds(name: str, message: Mapping[str, Any]) -> Iterator[Deed]:
    """List what an order is to a host's policy: what leads to another host is a move as well."""
    if name in ORDERS:
        yield ORDERS[name].deed
    if (message.get("data") or {}).get("to_host"):
        yield "move"
