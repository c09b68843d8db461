"""What tests of several files share."""

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import selection

if TYPE_CHECKING:
    from browser import Browsing, Chromium
    from databases import Postgres
    from fleet_agents import Scripted
    from fleets import World
    from inboxes import Inbox
    from sessions import Make
    from terminals import Terminal

    from tasuki.fleet.store.database import FleetDatabase
    from tasuki.launch.tmux.panes import TmuxPanes

TOGETHER = (
    "tests/browser/test_dashboard_command.py",
    "tests/cli/test_author_small_model.py",
    "tests/evals/test_eval_page.py",
    "tests/evals/test_judged_set.py",
    "tests/repository/test_naming.py",
    "tests/repository/test_wheel.py",
    "tests/unit/draft/test_model_clients.py",
    "tests/unit/draft/test_planted.py",
    "tests/unit/draft/test_state_labels.py",
    "tests/web/test_web_api.py",
    "tests/web/test_web_auth.py",
    "tests/web/test_web_hooks.py",
    "tests/web/test_web_outside.py",
    "tests/web/test_web_proxy.py",
)
"""Files that one worker runs whole: what their tests share is costly, or is there for one at a time."""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell: programs under test would be deaf to Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
WHOLE = ("tests/browser/test_browser_", "tests/unit/")
"""Files that begin so run whole in one worker each: with one Chromium; or since their tests are short."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 << 30
"""What all tests together may write there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`scripts/test --all` runs what the default leaves out; CONTRIBUTING lists it."""
    parser.addoption("--all", action="store_true", help="also run what takes long")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search for no garbage while tests are collected, nor later in what was: each search would go through it all."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `--all` runs, unless tests are named one by one.

    That is what is marked `long`, and what runs on SQLite already where it would run on PostgreSQL,
    unless it is marked `both_databases`. What is left begins with the files that one worker runs
    whole: at the end of a run each worker has something short to do.
    """
    if not runs_all(config):
        ids = {item.nodeid for item in items}

        def is_long(item: pytest.Item) -> bool:
            twin = item.nodeid.replace("postgresql", "sqlite")
            left_out = (
                twin != item.nodeid
                and twin in ids
                and not item.get_closest_marker("both_databases")
            )
            return bool(left_out or item.get_closest_marker("long"))

        if long := [item for item in items if is_long(item)]:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not is_long(item)]
    items.sort(key=lambda item: not is_whole(item.nodeid))


def runs_all(config: pytest.Config) -> bool:
    """Whether this run takes also what takes long: with `--all`, or since tests are named one by one."""
    return bool(config.getoption("--all")) or any("::" in argument for argument in config.args)


def is_whole(nodeid: str) -> bool:
    """Whether one worker runs the whole file of a test."""
    file = nodeid.partition("::")[0]
    return file in TOGETHER or file.startswith(WHOLE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers for each core: most tests of the fleet and of terminals wait for something."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Tell `selection` which run this is; keep the folders of tests in memory where there is room.

    What they write there is synced to no disk.
    """
    selection.takes_long = runs_all(config)
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not MEMORY.is_dir():
        return
    system = os.statvfs(MEMORY)
    is_large = system.f_bavail * system.f_frsize >= ROOM_BYTES
    if is_large and not system.f_flag & (os.ST_RDONLY | getattr(os, "ST_NOEXEC", 0)):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Each test goes to the worker that is free, the files that one worker runs whole first.

    Marks of groups are lost on the way (xdist 3.8, pytest 9.2). What is done is forgotten: xdist
    would count all of it again after each test.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0] if is_whole(nodeid) else nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            nodeid = self.registered_collections[node][item_index]
            units, scope = self.assigned_work[node], self._split_scope(nodeid)
            units[scope][nodeid] = True
            if all(units[scope].values()):
                del units[scope]
            self._reschedule(node)

    return Scheduling(config, log)


@pytest.fixture(scope="module")
def small_model() -> Iterator[str]:
    """The base URL of a real model; skips where its packages cannot be had, but fails in CI."""
    from small_model import missing, serving

    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with serving() as url:
        yield url


@pytest.fixture
def desk(tmp_path: Path) -> "Iterator[Make]":
    """Makes running sessions whose agents follow some rules."""
    from sessions import making

    yield from making(tmp_path)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Terminal]":
    """A tmux server of the test's own."""
    from pane_programs import own_server

    with own_server(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["by-processes", "by-a-client"])
def panes(
    terminal: "Terminal", tmp_path: Path, request: pytest.FixtureRequest
) -> "Iterator[TmuxPanes]":
    """The panes of that server, asked in both ways."""
    from tasuki.launch.tmux.panes import TmuxPanes

    made = TmuxPanes(terminal, tmp_path / "locks", stays=request.param)
    yield made
    made.close_client()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a program under test tells what happened to it."""
    return tmp_path / "events.jsonl"


@pytest.fixture
def scripted(tmp_path: Path, terminal: "Terminal") -> "Scripted":
    """A world of scripted agents with a tmux server of its own."""
    from fleet_agents import Scripted

    return Scripted(tmp_path, terminal)


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server of the tests' own; skips where none can be had, but fails in CI."""
    from databases import missing, postgres

    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with postgres() as server:
        yield server


@pytest.fixture
def worlds() -> Iterator[ExitStack]:
    """Ends the fleets of a test."""
    with ExitStack() as made:
        yield made


@pytest.fixture(scope="session")
def guarded() -> "Iterator[Postgres]":
    """A PostgreSQL that lets in by passwords, on loopback with TLS."""
    from databases import missing, postgres

    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with postgres(guarded=True) as server:
        yield server


@pytest.fixture
def owner_url(guarded: "Postgres") -> Iterator[str]:
    """The URL of an empty database's owner there, who may make roles and is no superuser."""
    made = guarded.make_owned()
    yield made
    guarded.drop(made)


@pytest.fixture
def owner(owner_url: str) -> "Iterator[FleetDatabase]":
    """The database with the fleet's tables, as its owner."""
    from databases import make_tables

    from tasuki.fleet.store.database import FleetDatabase

    make_tables(owner_url)
    made = FleetDatabase(owner_url)
    yield made
    made.close()


@pytest.fixture
def chromium() -> "Chromium":
    """Debian's Chromium, headless; skips where none can be had, but fails in CI.

    Tests that follow each other share it.
    """
    from browser import missing, open_shared

    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return open_shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser before a test that needs none."""
    try:
        yield
    finally:
        if "browser" in sys.modules and "chromium" not in getattr(nextitem, "fixturenames", ()):
            sys.modules["browser"].close_shared()


@pytest.fixture
def browsing(chromium: "Chromium") -> "Iterator[Browsing]":
    """Opens pages; each fault of theirs that the test did not expect fails it."""
    from browser import Browsing

    made = Browsing(chromium)
    yield made
    made.leave()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[None]:
    """A test's pages are closed while its servers are still there; then their faults are told."""
    browsing: Browsing | None = getattr(item, "funcargs", {}).get("browsing")
    try:
        result = yield
    finally:
        if browsing:
            browsing.leave()
            item.add_report_section("call", "pages", "\n".join(browsing.faults))
    if browsing and (faults := browsing.unexpected()):
        pytest.fail("\n".join(faults), pytrace=False)
    return result


@pytest.fixture
def inbox() -> "Iterator[Inbox]":
    """An address of the test's own that takes notifications."""
    from inboxes import Inbox

    made = Inbox()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of the test's own, of each kind, with the fleet's tables."""
    if request.param == "sqlite":
        from databases import copy_tables

        yield f"sqlite:///{copy_tables(tmp_path / 'fleet.db')}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.make()
    yield url
    server.drop(url)


@pytest.fixture
def database(database_url: str) -> "Iterator[FleetDatabase]":
    """A database of each kind, with the fleet's tables."""
    from tasuki.fleet.store.database import FleetDatabase

    made = FleetDatabase(database_url)
    yield made
    made.close()


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> "Iterator[World]":
    """A fleet that is served, with the hooks in its harness; on SQLite and on PostgreSQL."""
    from fleets import LIMITS, World

    made = World(tmp_path, database_url)
    made.serve(limits=json.dumps(LIMITS))
    made.install()
    yield made
    made.close()
