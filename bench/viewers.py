"""Viewers of the fleet's page without a browser: each holds the stream of news and fetches the page as live.js does.

    python bench/viewers.py HOST:PORT SITE COOKIE COUNT

Prints a line when all are connected, then one for each page that a viewer got after news: the time in seconds since
1970, the viewer's number and the bytes. It ends with its standard input.
"""

import argparse
import asyncio
import sys
import time


class Viewer:
    """One open page."""

    def __init__(self, address: str, site: str, cookie: str, number: int) -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.site, self.cookie, self.number = site, cookie, number
        self.version = ""
        self.is_ready = asyncio.Event()

    async def run(self) -> None:
        """Stay connected, and fetch at news."""
        stream, stream_out = await self._ask("/live")
        page, page_out = await self._ask("/")
        await self._read_page(page)
        while line := await stream.readline():
            if not line.startswith(b"data: ") or (
                self.is_ready.is_set() and b'"topics":[]' in line
            ):
                continue
            if not self.is_ready.is_set():
                self.is_ready.set()
                continue
            if page.at_eof():  # the server ends a connection that was silent for some seconds
                page, page_out = await self._ask("/")
            else:
                page_out.write(self._head("/"))
            size = await self._read_page(page)
            print(f"{time.time():.4f} {self.number} {size}", flush=True)
        stream_out.close()

    async def _ask(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(self._head(path))
        return reader, writer

    def _head(self, path: str) -> bytes:
        known = f'If-None-Match: "{self.version}"\r\n' if self.version else ""
        return (
            f"GET {path} HTTP/1.1\r\nHost: {self.site}\r\nCookie: {self.cookie}\r\n"
            f"Accept-Encoding: gzip\r\n{known}\r\n"
        ).encode()

    async def _read_page(self, reader: asyncio.StreamReader) -> int:
        """Read an answer; its bytes. Its version is what the next request names."""
        length, chunked = 0, False
        while (line := await reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "etag":
                self.version = value.strip().strip('"')
            length = int(value) if name.lower() == "content-length" else length
            chunked = chunked or name.lower() == "transfer-encoding"
        assert not chunked, "pages have a length"
        return len(await reader.readexactly(length))


async def main() -> None:
    """Run the viewers until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("address", "site", "cookie"):
        parser.add_argument(name)
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    viewers = [Viewer(given.address, given.site, given.cookie, n) for n in range(given.count)]
    tasks = [asyncio.create_task(viewer.run()) for viewer in viewers]
    await asyncio.gather(*(viewer.is_ready.wait() for viewer in viewers))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
