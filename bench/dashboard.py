"""What the dashboard costs: its first page with many agents, and one event on its way into the page.

    python bench/dashboard.py [--agents N] [--times N] [--write]

A real server in a process of its own, on SQLite, with the rows of 200 agents at work, and Chromium
without a window. First page: a browser that is signed in and has kept nothing; the bytes on the wire are those that
Chromium counts, the first card is when a MutationObserver in the page sees it. The static page is the same HTML, style
sheet and scripts from a server that only sends bytes. One event: a hook's event is posted as the hook script does, in
turns the begin and the end of a turn; a MutationObserver in the page says when the card has changed, and what else has;
the same with 49 other viewers (`viewers.py`, a process of its own).
"""

import argparse
import gzip
import http.client
import http.server
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

import fleet_records  # noqa: E402
from browser import Browsing, chromium, missing, operator  # noqa: E402
from fleets import World  # noqa: E402
from playwright.sync_api import Page  # noqa: E402

from tasuki.fleet.store.database import FleetDatabase, build_sqlite_url  # noqa: E402

PAGE = ROOT / "bench" / "README.md"
PROJECTS = ("orchard-api", "orchard-web", "ledger", "pantry", "almanac")
VIEWERS = 50
VOCABULARY = (
    "the retry budget holds now nine tests pass next would write limits down in README upload returns early "
    "when gateway answers header is ignored above thirty seconds migration goes up again parser drops blank "
    "lines menu closes on Escape focus comes back rounding differs by one cent export still rounds itself"
).split()
TURN = ("UserPromptSubmit", "Stop")
Row = tuple[str, str, str, str]

WATCH = """() => {
  window.changed = new Set(); window.at = 0;
  new MutationObserver((records) => {
    for (const record of records) {
      const nodes = [...record.addedNodes].filter((node) => node.nodeType === 1);
      const gone = [...record.removedNodes].some((node) => node.nodeType === 1);
      if (record.attributeName === "data-version" || record.attributeName === "data-newest") continue;
      for (const node of nodes.length ? nodes : gone ? [] : [record.target]) {
        const element = node.nodeType === 1 ? node : node.parentElement;
        if (!element || element.closest("time, #live")) continue;
        const card = element.closest(".card");
        if (card) { window.changed.add(card.id); window.at = window.at || Date.now(); }
        else if (element.id) window.changed.add("#" + element.id);
      }
    }
  }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
FIRST_CARD = """new MutationObserver((_, observer) => {
  if (document.querySelector(".card")) { window.firstCard = performance.now(); observer.disconnect(); }
}).observe(document, {childList: true, subtree: true});"""
TIMING = """() => { const it = performance.getEntriesByType("navigation")[0];
  return {ready: it.domContentLoadedEventEnd, load: it.loadEventEnd, card: window.firstCard, server: it.responseStart - it.requestStart}; }"""


def rows(world: World, agents: int) -> None:
    """The rows of many agents, each with a persona and a session of its own."""
    database = FleetDatabase(build_sqlite_url(world.data / "fleet.db"))
    try:
        for n in range(agents):
            slug = f"developer-n{n}-1"
            fleet_records.persona(database, slug)
            fleet_records.agent(
                database, persona=slug, state=("idle", "busy")[n % 2], state_at=time.time() - n * 60,
                cwd=f"/home/dev/{PROJECTS[n % len(PROJECTS)]}", context_used=float(n % 75),
                context_tokens=n % 75 * 2000, context_window=200_000, last_words=words(n),
                session=f"bench-{n}", host=_host(world), started_at=time.time() - 3600,
            )  # fmt: skip
    finally:
        database.close()


def words(seed: int) -> str:
    """What an agent said last: as long as real words, and no two alike."""
    return " ".join(random.Random(seed).choices(VOCABULARY, k=24)).capitalize() + "."


def _host(world: World) -> str:
    (row,) = world.sql("SELECT DISTINCT host FROM agents") or [{"host": "elsewhere"}]
    return str(row["host"])


def spread(values: list[float], unit: str = "ms", digits: int = 0) -> tuple[str, str]:
    """Median and worst, in words."""
    return tuple(f"{of(values):,.{digits}f} {unit}" for of in (statistics.median, max))  # type: ignore[return-value]


def until(page: Page, condition: str) -> None:
    """Wait in a page whose Content-Security-Policy lets nothing be evaluated in it."""
    deadline = time.monotonic() + 10
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition


# -- the first page --------------------------------------------------------------------


def answered(world: World, cookie: str, times: int) -> tuple[int, list[float]]:
    """Bytes of the fleet's page as it is, and milliseconds until its last byte, without a browser."""
    took, size = [], 0
    site = world.origin().partition("://")[2]
    for _ in range(times):
        connection = http.client.HTTPConnection(world.address(), timeout=30)
        began = time.perf_counter()
        connection.request("GET", "/", headers={"Host": site, "Cookie": cookie})
        size = len(connection.getresponse().read())
        took.append(1000 * (time.perf_counter() - began))
        connection.close()
    return size, took


def first_page(world: World, browsing: Browsing, options: argparse.Namespace) -> list[Row]:
    """The fleet's page in a browser that has kept nothing."""
    origin = world.origin()
    timings: list[dict[str, float]] = []
    wire: list[tuple[int, int]] = []
    cookie = ""
    for n in range(options.times + 1):
        page = browsing.page(origin)
        page.add_init_script(FIRST_CARD)
        cookie = signed_in(page, world)
        page.goto("/health")  # as the page behind the link does: Chromium's process is there
        devtools = page.context.new_cdp_session(page)
        devtools.send("Network.enable")
        kinds: dict[str, str] = {}
        sizes: dict[str, int] = {}
        devtools.on(
            "Network.responseReceived", lambda e, k=kinds: k.update({e["requestId"]: e["type"]})
        )
        devtools.on("Network.loadingFinished", lambda e, s=sizes: s.update({e["requestId"]: int(e["encodedDataLength"])}))  # fmt: skip
        page.goto("/", wait_until="load")
        until(page, "performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
        if n:  # the first one warms Chromium and the server
            timings.append(page.evaluate(TIMING))
            document = sum(size for id, size in sizes.items() if kinds.get(id) == "Document")
            wire.append((document, sum(sizes.values())))
        browsing.leave()
    raw, took = answered(world, cookie, options.times)
    document, everything = wire[-1]
    card = [t["card"] for t in timings]
    static = static_page(world, browsing, cookie, options.times)
    ratio = statistics.median(card) / statistics.median(static)
    return [
        ("first page: HTML", f"{raw / 1000:,.1f} kB", "", ""),
        ("the same, on the wire", f"{document / 1000:,.1f} kB", "", ""),
        (
            "with style sheet and scripts, on the wire",
            f"{everything / 1000:,.1f} kB",
            "",
            "≤ 100 kB",
        ),
        ("the server's answer, to its last byte", *spread(took), ""),
        ("the browser waits for the server", *spread([t["server"] for t in timings]), ""),
        ("until the first card", *spread(card), "≤ 200 ms"),
        ("the same of a static page with the same bytes", *spread(static), ""),
        ("the first card, as a ratio to the static page", f"{ratio:.2f}", "", ""),
        ("until load", *spread([t["load"] for t in timings]), ""),
    ]


class StaticPages(http.server.BaseHTTPRequestHandler):
    """Sends what it was given, compressed."""

    files: ClassVar[dict[str, tuple[str, bytes]]] = {}
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        kind, content = self.files.get(self.path, ("text/plain", b""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def static_page(world: World, browsing: Browsing, cookie: str, times: int) -> list[float]:
    """Milliseconds until the first card of the same page, from a server that only sends bytes."""
    site = world.origin().partition("://")[2]

    def fetch(path: str) -> tuple[str, bytes]:
        connection = http.client.HTTPConnection(world.address(), timeout=30)
        connection.request("GET", path, headers={"Host": site, "Cookie": cookie})
        answer = connection.getresponse()
        return answer.headers["Content-Type"], answer.read()

    kind, html = fetch("/")
    page_html = re.sub(rb' data-version="[^"]*"', b"", html)  # nothing is live there
    StaticPages.files = {"/": (kind, gzip.compress(page_html, 5))}
    for path in re.findall(r"(?:src|href)=\"(/static/[^\"]+)", html.decode()):
        asset_kind, content = fetch(path)
        StaticPages.files[path] = (asset_kind, gzip.compress(content, 9))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StaticPages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    took = []
    try:
        for n in range(times + 1):
            page = browsing.page(f"http://127.0.0.1:{server.server_port}")
            page.add_init_script(FIRST_CARD)
            page.goto("/nothing")
            page.goto("/", wait_until="load")
            if n:
                took.append(page.evaluate("window.firstCard"))
            browsing.leave()
    finally:
        server.shutdown()
    return took


def signed_in(page: Page, world: World) -> str:
    """Sign a browser in without loading what the measured page needs; its cookie."""
    page.route("**/static/**", lambda route: route.abort())
    answer = page.goto(world.link())
    assert answer, "no answer"
    assert answer.ok, answer.status
    page.wait_for_url(f"{world.origin()}/")
    page.unroute("**/static/**")
    (cookie,) = page.context.cookies()
    return f"{cookie.get('name')}={cookie.get('value')}"


# -- one event -------------------------------------------------------------------------


def hook(world: World, agent: int, number: int) -> None:
    """An event of an agent, as its hook script posts it."""
    token = (world.data / "fleet" / "hook-token").read_text().strip()
    body = {
        "hook_event_name": TURN[number % 2], "session_id": f"bench-{agent}", "cwd": "/tmp",
        "prompt": "go on", "prompt_id": f"{agent}-{number}", "transcript_path": "",
        "last_assistant_message": words(number), "background_tasks": [],
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {token}", "X-Tasuki-Event": str(uuid.uuid4())}
    connection = http.client.HTTPConnection(world.address(), timeout=30)
    connection.request("POST", "/api/hooks/claude", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def one_event(world: World, browsing: Browsing, options: argparse.Namespace) -> list[Row]:
    """From a hook's event to the changed card."""
    page = operator(browsing.page(world.origin()), world.link())
    took, touched = changed_cards(world, page, options.times)
    cards = {sum(not id.startswith("#") for id in ids) for ids in touched}
    others = sorted({id for ids in touched for id in ids if id.startswith("#")})
    return [
        ("a hook's event until its card has changed", *spread(took), "≤ 100 ms"),
        ("cards that one event changes", str(max(cards)), "", "1"),
        ("what else it changes: " + (", ".join(f"`{id}`" for id in others) or "nothing"), str(len(others)), "", ""),
    ]  # fmt: skip


def changed_cards(
    world: World, page: Page, times: int, agent: int = 0
) -> tuple[list[float], set[frozenset[str]]]:
    """Milliseconds from an event to its card, and what each event changed in the page."""
    until(
        page,
        "document.querySelector('#live-word').textContent === 'Live' && !document.querySelector('#live').hidden",
    )
    took: list[float] = []
    touched: set[frozenset[str]] = set()
    for n in range(times + 1):
        page.evaluate(WATCH) if not n else page.evaluate("window.changed.clear(); window.at = 0")
        began = time.time()
        hook(world, agent, n)
        until(page, "window.at > 0")
        page.wait_for_timeout(600)  # what follows a card
        if n:
            took.append(page.evaluate("window.at") - 1000 * began)
            touched.add(frozenset(page.evaluate("[...window.changed]")))
    return took, touched


def many_viewers(world: World, browsing: Browsing, options: argparse.Namespace) -> list[Row]:
    """The same with 49 other viewers."""
    page = operator(browsing.page(world.origin()), world.link())
    (cookie,) = page.context.cookies()
    known = f"{cookie.get('name')}={cookie.get('value')}"
    site = world.origin().partition("://")[2]
    command = [
        sys.executable,
        str(ROOT / "bench" / "viewers.py"),
        world.address(),
        site,
        known,
        str(VIEWERS - 1),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as viewers:
        assert viewers.stdin, "no pipe"
        assert viewers.stdout, "no pipe"
        assert viewers.stdout.readline() == "ready\n"
        took, _ = changed_cards(world, page, options.times, agent=2)
        viewers.stdin.close()
        lines = viewers.stdout.read().splitlines()
    sizes = [int(line.split()[2]) for line in lines]
    return [
        (f"the same with {VIEWERS} viewers", *spread(took), "≤ 100 ms"),
        ("what each of them gets for one event, on the wire", f"{statistics.median(sizes) / 1000:,.1f} kB", "", ""),
    ]  # fmt: skip


# -- an open terminal ------------------------------------------------------------------


def open_terminal(world: World, browsing: Browsing, options: argparse.Namespace) -> list[Row]:
    """What the terminal of one agent costs the server in which it is open: still, and while it scrolls."""
    server = world.server
    assert server
    found: list[Row] = []
    commands = {"stands still": "sleep 1000", "scrolls, 20 lines a second": "while :; do date; sleep .05; done"}  # fmt: skip
    for what, command in commands.items():
        made = world.tmux("new-session", "-d", "-x", "200", "-y", "50", "-P", "-F", "#{pane_id} #{pane_pid}", command)  # fmt: skip
        pane, pid = made.split()
        world.sql(
            f"UPDATE agents SET pane = '{pane}', pid = {pid}, adopted = 1, host = (SELECT id FROM hosts LIMIT 1) WHERE id = 1"
        )
        page = operator(browsing.page(world.origin()), world.link())
        page.goto("/agents/1")
        page.wait_for_selector(".xterm-rows")
        page.wait_for_timeout(3000)
        shown = _measure_share(server.pid)
        page.goto("/settings")
        page.wait_for_timeout(3000)
        share = max(0.0, shown - _measure_share(server.pid))
        found.append(
            (f"an open terminal that {what}: of a processor", f"{100 * share:.1f} %", "", "")
        )
        world.tmux("kill-pane", "-t", pane)
    return found


def _measure_share(pid: int, seconds: float = 8.0) -> float:
    """The share of a processor that a process takes."""
    began = _processor_seconds(pid)
    time.sleep(seconds)
    return (_processor_seconds(pid) - began) / seconds


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- the figures -----------------------------------------------------------------------

MEASURES: tuple[Callable[[World, Browsing, argparse.Namespace], list[Row]], ...] = (first_page, one_event, many_viewers, open_terminal)  # fmt: skip


def table(found: list[Row]) -> str:
    """The figures as Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in found]
    return "\n".join(("| what | median | worst | bound |", "|---|---|---|---|", *lines))


def write(text: str) -> None:
    """Put the figures into the page."""
    head, _, rest = PAGE.read_text("utf-8").partition("<!-- dashboard -->\n")
    tail = rest.partition("<!-- /dashboard -->")[2]
    PAGE.write_text(f"{head}<!-- dashboard -->\n{text}\n<!-- /dashboard -->{tail}", "utf-8")


def measured(options: argparse.Namespace) -> list[Row]:
    """Every figure, on a server of its own."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tasuki-bench-", ignore_cleanup_errors=True) as folder:
        world: Any = World(Path(folder) / "w")
        try:
            world.serve()
            rows(world, options.agents)
            with chromium() as browser:
                for measure in MEASURES:
                    browsing = Browsing(browser)
                    found += measure(world, browsing, options)
                    browsing.leave()
                    for fault in browsing.faults:
                        print(fault, file=sys.stderr)
        finally:
            world.close()
    return found


def main() -> None:
    """Measure, print, and write where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if reason := missing():
        raise SystemExit(f"This measures pages in a browser: {reason}.")
    text = table(measured(options))
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
