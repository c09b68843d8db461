"""Lines that are too long to be passed on: whoever waits for one is told."""

import sys
from typing import TYPE_CHECKING

from tasuki.session.acp.replies import INVALID
from tasuki.session.acp.wire import head, line

if TYPE_CHECKING:
    from tasuki.session.acp.proxy import Proxy


def dropped(proxy: "Proxy", raw: bytes, *, of_client: bool, limit: int) -> None:
    """A line was dropped, of which `raw` is the beginning. A request is refused, an answer becomes
    an error."""
    id, method = head(raw)
    side = "client" if of_client else "agent"
    what = f"A message of the {side} ({method or 'an answer'}) is longer than {_size(limit)} and was not passed on."  # fmt: skip
    print(f"tasuki acp: {what}", file=sys.stderr, flush=True)
    if id is None:
        return
    error = line({"id": id, "error": {"code": INVALID, "message": what}})
    if not of_client and not method:
        proxy.from_agent(error)
    elif of_client and method:
        proxy.to_client(error)
    else:
        proxy.to_agent(error)


def _size(limit: int) -> str:
    return f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit} bytes"
