"""A stand-in for an ACP conductor: client on standard streams, one proxy and one agent as children.

acp_conductor.py PREFIX PROXY... -- AGENT...     PREFIX is `proxy` or `_proxy`. Every request gets a
number of its own towards each neighbour; the same numbers are used towards all of them.
"""

import asyncio
import json
import sys


class Conductor:
    """Both neighbours of the proxy."""

    def __init__(self, prefix, proxy, agent):
        self.prefix, self.proxy, self.agent = prefix, proxy, agent
        self.back = {}
        self.numbers = {}

    def write(self, to, message):
        stream = {"client": None, "proxy": self.proxy.stdin, "agent": self.agent.stdin}[to]
        raw = (json.dumps(message) + "\n").encode()
        if stream is None:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        else:
            stream.write(raw)

    def route(self, message, to, source):
        if "method" not in message:
            origin, id = self.back.pop((source, message["id"]))
            self.write(origin, {**message, "id": id})
            return
        if "id" in message:
            number = self.numbers[to] = self.numbers.get(to, 0) + 1
            self.back[to, number] = (source, message["id"])
            message = {**message, "id": number}
        self.write(to, message)

    async def client(self):
        reader = asyncio.StreamReader(limit=1 << 26)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while raw := await reader.readline():
            message = json.loads(raw)
            if message.get("method") == "initialize":
                message["method"] = f"{self.prefix}/initialize"
            self.route(message, "proxy", "client")
        self.proxy.stdin.close()
        self.agent.stdin.close()

    async def between(self):
        while raw := await self.proxy.stdout.readline():
            message = json.loads(raw)
            if message.get("method") == f"{self.prefix}/successor":
                inner = {"jsonrpc": "2.0", **message["params"]}
                if "id" in message:
                    inner["id"] = message["id"]
                self.route(inner, "agent", "proxy")
            else:
                self.route(message, "client", "proxy")

    async def below(self):
        while raw := await self.agent.stdout.readline():
            message = json.loads(raw)
            if "method" in message:
                inner = {
                    "method": message["method"],
                    "params": message.get("params"),
                    "_meta": {"hop": 1},
                }
                outer = {"jsonrpc": "2.0", "method": f"{self.prefix}/successor", "params": inner}
                if "id" in message:
                    outer["id"] = message["id"]
                message = outer
            self.route(message, "proxy", "agent")


async def main():
    at = sys.argv.index("--")
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "limit": 1 << 26}
    proxy = await asyncio.create_subprocess_exec(*sys.argv[2:at], **pipes)
    agent = await asyncio.create_subprocess_exec(*sys.argv[at + 1 :], **pipes)
    conductor = Conductor(sys.argv[1], proxy, agent)
    await asyncio.gather(conductor.client(), conductor.between(), conductor.below())
    sys.exit(await proxy.wait())


asyncio.run(main())
