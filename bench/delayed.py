"""A PostgreSQL that is far away: a proxy on loopback that delays each direction by some milliseconds.

    python bench/delayed.py SOCKET MILLISECONDS

Prints its port, and ends when its input does. Bytes that arrive while others wait are not held up
behind them: each waits for its own time, as on a long cable.
"""

import argparse
import asyncio
import sys
from contextlib import suppress

PIECE = 1 << 16


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Carry the bytes of one direction, each piece this much later than it came."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        piece = b"?"
        while piece:
            try:
                piece = await reader.read(PIECE)
            except OSError:
                piece = b""
            pieces.put_nowait((loop.time() + seconds, piece))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, piece = await pieces.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if not piece:
                return
            writer.write(piece)
    finally:
        reading.cancel()
        writer.close()


async def serve(path: str, seconds: float) -> None:
    """Listen on loopback, and print the port."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(path)
        there, back = carry(reader, there_writer, seconds), carry(there_reader, writer, seconds)
        with suppress(asyncio.CancelledError):  # this program ends
            await asyncio.gather(there, back, return_exceptions=True)

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("socket")
    parser.add_argument("milliseconds", type=float)
    options = parser.parse_args()
    asyncio.run(serve(options.socket, options.milliseconds / 1000))
