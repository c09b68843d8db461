"""The proxy as a process: its two ends, how long it lives, and its exit code."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

from tasuki.session.acp import oversize
from tasuki.session.acp.chains import Chains
from tasuki.session.acp.conductor import Conductor
from tasuki.session.acp.process import GRACE, HASTE, Agent, Client, first
from tasuki.session.acp.proxy import Proxy
from tasuki.session.acp.wire import LIMIT, Lines

SETTLING = 5.0
"""Seconds for what was begun to be told to the client once the agent is gone."""

FINISHING = 2.0
"""Seconds for the threads that are kept to be whole."""


def serve(command: Sequence[str], limit: int = LIMIT) -> int:
    """Stand between the client on our standard streams and an agent; the exit code.

    Without a command the agent is reached through a conductor, on the same streams. Raises
    HarnessMissing where there is no such program, UsageError where the streams are no pipes.
    """
    return asyncio.run(_serve(list(command), limit))


async def _serve(command: list[str], limit: int) -> int:
    ordered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for order in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(order, _note, ordered, order)
    if command:
        return await _between(command, limit, ordered)
    return await _conducted(limit, ordered)


def _note(ordered: "asyncio.Future[int]", order: int) -> None:
    if not ordered.done():
        ordered.set_result(128 + order)


async def _between(command: list[str], limit: int, ordered: "asyncio.Future[int]") -> int:
    """A client at one end, the agent as a child at the other."""
    upward = Lines(
        lambda raw: proxy.from_client(raw),
        lambda raw: oversize.dropped(proxy, raw, of_client=True, limit=limit),
        limit,
    )
    downward = Lines(
        lambda raw: proxy.from_agent(raw),
        lambda raw: oversize.dropped(proxy, raw, of_client=False, limit=limit),
        limit,
    )
    client = Client(upward)
    proxy = Proxy(client.write, lambda raw: agent.write(raw), Chains(command), command[0])
    await client.open()
    agent = await Agent.start(command, downward)
    agent.other, client.other = client, agent
    try:
        await client.read()
        await first(client.gone, agent.gone, ordered)
        if agent.gone.done():
            await first(agent.exited, timeout=1.0)
            proxy.agent_ended(agent.fate)
            await proxy.settled(SETTLING)
    finally:
        await proxy.finish_threads(FINISHING)
        code = await agent.end(HASTE if ordered.done() else GRACE)
    await client.close()
    return ordered.result() if ordered.done() else code


async def _conducted(limit: int, ordered: "asyncio.Future[int]") -> int:
    """A conductor at the one end there is."""
    lines = Lines(lambda raw: conductor.take(raw), lambda raw: conductor.too_long(raw), limit)
    client = Client(lines)
    conductor = Conductor(client.write, limit)
    await client.open()
    await client.read()
    await first(client.gone, ordered)
    await conductor.proxy.finish_threads(FINISHING)
    await client.close()
    return ordered.result() if ordered.done() else 0
