"""Live events: everybody gets every line once, and goes on where they were."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.store.queries import find_newest_place
from tasuki.web import live


@pytest.fixture(params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server on each kind of database."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres").make()
    with serving(tmp_path, url) as one:
        yield one


def note(served: Served, *texts: str) -> int:
    """Lines of the log; the id of the last."""
    for text in texts:
        served.fleet.note("test", text)
    return find_newest_place(served.fleet.database).id


def taken(events: Iterator[dict[str, Any]], count: int) -> list[str]:
    """The texts of the next events."""
    return [next(events)["text"] for _ in range(count)]


def test_a_stream_begins_with_what_is_new(served: Served) -> None:
    """What was written before is not sent; each event has the id of its line."""
    note(served, "old")
    with served.stream() as events:
        last = note(served, "a", "b\nc")
        got = [next(events), next(events)]

    assert ["a", "b\nc"] == [event["text"] for event in got]
    assert [str(last - 1), str(last)] == [event["last_id"] for event in got]
    assert [last - 1, last] == [event["id"] for event in got]


def test_a_stream_goes_on_behind_an_id(served: Served) -> None:
    """By the header of a browser, or in the address; the header counts where both are there."""
    first = note(served, *"abcd") - 3

    with served.stream(f"?after={first}") as events:
        assert ["b", "c", "d"] == taken(events, 3)
    with served.stream("?after=0", **{"Last-Event-ID": str(first + 1)}) as events:
        assert ["c", "d"] == taken(events, 2)
        note(served, "e")
        assert ["e"] == taken(events, 1)


@pytest.mark.parametrize("id", ["99999999", "x", "-1", "", "9" * 30, "²"])
def test_an_id_that_is_none_is_passed_over(served: Served, id: str) -> None:
    """Of another database, or nonsense: the stream begins with what is new."""
    note(served, "old")
    with served.stream(**{"Last-Event-ID": id.encode().decode("latin-1")}) as events:
        note(served, "new")
        assert ["new"] == taken(events, 1)


def test_nothing_is_lost_or_doubled_where_old_meets_new(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that begin at any moment, while lines are written, see each once and in order."""
    monkeypatch.setattr(live, "PAGE_LINES", 7)
    start, total = note(served, "begin"), 120
    seen: list[list[str]] = []

    def read() -> None:
        with served.stream(f"?after={start}") as events:
            seen.append(taken(events, total))

    readers = [threading.Thread(target=read) for _ in range(6)]
    for number in range(total):
        if number % 20 == 10:
            readers[number // 20].start()
        note(served, str(number))
    for reader in readers:
        reader.join(30)

    assert [[str(number) for number in range(total)]] * 6 == seen


def test_events_of_hooks_are_told(served: Served) -> None:
    """What an agent's hook posts is on the stream."""
    with served.stream() as events:
        body = b'{"hook_event_name": "SessionStart", "session_id": "5e55", "cwd": "/", "source": "startup"}'
        assert 200 == served.ask("POST", "/api/hooks/claude", body, token=served.tokens.hook).status
        assert "started" == next(events)["kind"]


def test_a_slow_reader_is_cut_off_and_others_are_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds nobody up; it goes on by the last id that it saw."""
    monkeypatch.setattr(live, "MOST_WAITING_BYTES", 50_000)
    request = f"GET /api/events HTTP/1.1\r\nHost: {served.host}\r\nAuthorization: Bearer {served.tokens.operator}\r\n\r\n"
    with socket.socket() as slow, served.stream() as events:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(request.encode())
        open_streams = lambda: len(served.live.streams)  # noqa: E731
        retry_until(lambda: open_streams() == 2)
        count = 0
        while not served.live.cut_off and count < 4000:
            note(served, *["x" * 8000] * 10)
            count += 10
            taken(events, 10)

        assert 1 == served.live.cut_off
        note(served, "still here")
        assert ["still here"] == taken(events, 1)


def test_silence_is_broken_now_and_then(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment keeps a silent stream open."""
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 0.3)
    request = f"GET /api/events HTTP/1.1\r\nHost: {served.host}\r\nAuthorization: Bearer {served.tokens.operator}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as reader:
        reader.sendall(request.encode())
        note(served, "wakes it")
        got = b""
        while b"\r\n:\n\n\r\n" not in got:
            piece = reader.recv(4096)
            assert piece
            got += piece


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    """Nobody hangs."""
    ended = threading.Event()

    def read(served: Served, began: threading.Event) -> None:
        with served.stream() as events:
            began.set()
            for _ in events:
                pass
        ended.set()

    with serving(tmp_path) as served:
        began = threading.Event()
        threading.Thread(target=read, args=(served, began), daemon=True).start()
        assert began.wait(10)

    assert ended.wait(10)


def test_the_log_is_read_in_pages(served: Served) -> None:
    """Of all, or of one agent."""
    id = records.agent(served.fleet.database)
    first = note(served, "a")
    served.fleet.note("test", "b", agent_id=id)
    note(served, "c")

    def texts(query: str) -> list[str]:
        return [event["text"] for event in served.ask("GET", f"/api/log?{query}").json["events"]]

    assert ["a", "b", "c"] == texts("")
    assert ["b"] == texts(f"after={first}&limit=1") == texts(f"agent={id}")


def test_a_line_that_nobody_can_make_sense_of_stops_no_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in what is told of a line, or in reading lines, is logged; later lines are on the stream."""
    told = []

    def tell(event: Any) -> None:
        if event.text == "odd":
            raise KeyError("alert")
        told.append(event.text)

    with served.stream() as events:
        monkeypatch.setattr(served.live, "on_event", tell)
        note(served, "odd", "even")
        assert ["odd", "even"] == taken(events, 2)
        retry_until(lambda: told == ["even"])
        read, failures = live.queries.list_lines_after, [RuntimeError("no thread"), TimeoutError()]

        def fail(*arguments: Any) -> Any:
            if failures:
                raise failures.pop()
            return read(*arguments)

        monkeypatch.setattr(live.queries, "list_lines_after", fail)
        note(served, "after all")
        assert ["after all"] == taken(events, 1)
    assert not failures
