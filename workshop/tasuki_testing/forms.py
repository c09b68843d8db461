"""What thread files are made of, so that a contract can split and join them; and its input."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread

STRANGE = {"type": "x-unheard-of", "payload": {"type": "strange"}}


class Form(Protocol):
    """How the threads of a harness are stored in files."""

    strange: bytes
    """A unit of an unknown type."""
    broken: bytes
    """A unit that cannot be read."""

    def encode(self, record: dict[str, Any]) -> bytes:
        """Return a record of `ThreadBuilder` as a unit."""
        ...

    def units(self, path: Path) -> list[bytes]:
        """Return the units of a thread, in order."""
        ...

    def write(self, units: Sequence[bytes], path: Path) -> None:
        """Write a thread that consists of these units."""
        ...

    def file(self, path: Path) -> Path:
        """Return the file that holds the thread at `path`: `path` itself, except in a database."""
        ...


class JsonLines:
    """One JSON document per line, only ever appended."""

    strange = json.dumps(STRANGE).encode() + b"\n"
    broken = b'{"type":"message", "broken\n'

    def encode(self, record: dict[str, Any]) -> bytes:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def units(self, path: Path) -> list[bytes]:
        return path.read_bytes().splitlines(keepends=True)

    def write(self, units: Sequence[bytes], path: Path) -> None:
        path.write_bytes(b"".join(units))

    def file(self, path: Path) -> Path:
        return path


class JsonDocument(JsonLines):
    """One JSON document, rewritten each time; the first unit is all of it except its list."""

    def __init__(self, key: str = "messages") -> None:
        self.key = key
        """Name of the list that holds the units."""

    def units(self, path: Path) -> list[bytes]:
        document = json.loads(path.read_bytes())
        parts = document.pop(self.key)
        return [self.encode(document), *map(self.encode, parts)]

    def write(self, units: Sequence[bytes], path: Path) -> None:
        head, *parts = [unit.strip() for unit in units]
        opened = head[:-1].rstrip() + (b"" if head == b"{}" else b",")
        key = json.dumps(self.key).encode()
        path.write_bytes(opened + key + b":[" + b",\n".join(parts) + b"]}")


class TextBlocks(JsonLines):
    """Markdown, only ever appended; a unit is one match of a pattern."""

    broken = b"\x00\xff\n"

    def __init__(self, pattern: bytes, strange: bytes = b"x-unheard-of\n") -> None:
        self.pattern = re.compile(pattern, re.MULTILINE)
        self.strange = strange

    def encode(self, record: dict[str, Any]) -> bytes:
        text: str = record["text"]
        return text.encode("utf-8", "surrogatepass")

    def units(self, path: Path) -> list[bytes]:
        return [match[0] for match in self.pattern.finditer(path.read_bytes()) if match[0]]


class OpencodeDatabase:
    """SQLite tables `session`, `message` and `part`, as opencode has them; a unit is a row.

    A thread is named as if it were a file below the database. Rows of messages and parts hold a
    JSON document in `data`, and ids that grow with time; a part without ids belongs to the row
    before.
    """

    SCHEMA = """
        CREATE TABLE session (
          id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
          version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
        CREATE TABLE message (
          id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (
          id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
          time_updated INTEGER, data TEXT);
        CREATE INDEX message_session ON message (session_id, time_created, id);
        CREATE INDEX part_message ON part (message_id, id);
        CREATE INDEX part_session ON part (session_id);
    """
    _TIMES = ("time_created", "time_updated")
    COLUMNS: ClassVar[dict[str, tuple[str, ...]]] = {
        "session": (
            "id", "project_id", "parent_id", "directory", "title", "version", "revert", *_TIMES,
        ),
        "message": ("id", "session_id", *_TIMES),
        "part": ("id", "message_id", "session_id", *_TIMES),
    }  # fmt: skip
    """Columns but `data`; a unit may hold others, which are left out."""
    _DATA = re.compile(rb',\s*"data":\s*')

    def __init__(self) -> None:
        self.strange = self.encode({"table": "part", "data": STRANGE})
        self.broken = b'{"table":"part","data":{"type":"text", "broken}\n'

    def encode(self, record: dict[str, Any]) -> bytes:
        head = {key: value for key, value in record.items() if key != "data"}
        unit = json.dumps(head, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if "data" in record:
            data = json.dumps(record["data"], ensure_ascii=False, separators=(",", ":"))
            unit = unit[:-1] + b',"data":' + data.encode("utf-8", "surrogatepass") + b"}"
        return unit + b"\n"

    def file(self, path: Path) -> Path:
        return path.parent if path.parent.suffix == ".db" else path

    def units(self, path: Path) -> list[bytes]:
        """Return rows of the thread in the order of creation, then those of its sub-agents."""
        import sqlite3

        with closing(sqlite3.connect(self.file(path))) as db:
            db.text_factory = bytes
            ids = "SELECT id FROM session WHERE id = ? OR parent_id = ? ORDER BY time_created"
            wanted = [id for (id,) in db.execute(ids, (path.name, path.name))]
            return [unit for id in wanted for unit in self._read_rows(db, id)]

    def _read_rows(self, db: Any, session: bytes) -> list[bytes]:
        found: list[tuple[bytes, bytes]] = []
        for table in ("session", "message", "part"):
            column = "id" if table == "session" else "session_id"
            select = f"SELECT * FROM {table} WHERE CAST({column} AS BLOB) = ?"
            cursor = db.execute(select, (session,))
            names = [each[0] for each in cursor.description]
            for values in cursor:
                row = dict(zip(names, values, strict=True))
                key = b"" if table == "session" else row["id"].partition(b"_")[2][:12]
                found.append((key, self._build_unit(table, row)))
        return [unit for _, unit in sorted(found, key=lambda pair: pair[0])]

    def _build_unit(self, table: str, row: dict[str, Any]) -> bytes:
        data = row.pop("data", None)
        plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in row.items()}
        unit = json.dumps({"table": table, **plain}).encode()
        return unit + b"\n" if data is None else unit[:-1] + b',"data":' + data + b"}\n"

    def write(self, units: Sequence[bytes], path: Path) -> None:
        import sqlite3

        file = self.file(path)
        file.unlink(missing_ok=True)
        before: dict[str, Any] = {}
        with closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.executescript(self.SCHEMA)
            for unit in units:
                if unit.strip():
                    before = self._insert_unit(db, unit, before)
            db.commit()

    def _insert_unit(self, db: Any, unit: bytes, before: dict[str, Any]) -> dict[str, Any]:
        head, found, data = unit.strip(), None, b""
        if match := self._DATA.search(head):
            head, data, found = head[: match.start()] + b"}", head[match.end() : -1], True
        try:
            row = json.loads(head.decode("utf-8", "surrogateescape"))
            table = row.pop("table")
        except (ValueError, KeyError, AttributeError, RecursionError):
            row, table, data, found = {}, "part", unit, True
        table = table if isinstance(table, str) and table in self.COLUMNS else "part"
        row = {key: _convert_scalar(row[key]) for key in row if key in self.COLUMNS[table]}
        if table == "part" and "message_id" not in row:
            row = {**self._build_part_ids(before), **row}
        columns, values = list(row), list(row.values())
        if found and table != "session":
            columns, values = [*columns, "data"], [*values, data]
        marks = ["CAST(? AS TEXT)" if c == "data" else "?" for c in columns]
        db.execute(
            f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join(marks)})",
            values,
        )
        return {**row, "table": table}

    def _build_part_ids(self, before: dict[str, Any]) -> dict[str, Any]:
        """Return the ids of a part that came right after the row before."""
        id = str(before.get("id") or "")
        if before.get("table") == "session":
            return {"id": "prt_0~", "message_id": "", "session_id": id}
        message = before.get("message_id") or id
        place = id.partition("_")[2]
        return {
            "id": f"prt_{place}~",
            "message_id": message,
            "session_id": before.get("session_id", ""),
        }


def _convert_scalar(value: object) -> object:
    """Return a value that SQLite can store."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 62 else float(value)
    return json.dumps(value)


class Trial(Struct):
    """The input of a contract."""

    harness: Harness
    samples: Sequence[Path]
    """Real thread files of the harness."""
    story: Path
    """The thread of `tasuki_testing.story`, in the harness's format."""
    folder: Path
    """An empty folder to work in."""
    form: Form = JsonLines()
    """What the files are made of."""

    def read(self, path: Path) -> Thread:
        return self.harness.read(path)

    def read_head(self, path: Path) -> bytes:
        """Return the first 8 KiB of the file that holds a thread."""
        with self.form.file(path).open("rb") as file:
            return file.read(8192)

    def write_copy(self, units: Sequence[bytes], original: Path) -> Path:
        """Write a thread of other units under the same name."""
        path = self._create_place(original)
        self.form.write(units, path)
        return path

    def write_raw(self, content: bytes, original: Path) -> Path:
        """Write a thread whose file contains these bytes, under the same name."""
        path = self._create_place(original)
        self.form.file(path).write_bytes(content)
        return path

    def _create_place(self, original: Path) -> Path:
        folder = self.folder / f"copy-{sum(1 for _ in self.folder.iterdir())}"
        folder.mkdir()
        return folder / original.relative_to(self.form.file(original).parent)

    def build_thread_file(self, path: Path) -> ThreadFile:
        stat = self.form.file(path).stat()
        return ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


Contract = Callable[[Trial], None]
CONTRACTS: dict[int, Contract] = {}
"""All contracts by number; a number is never used again."""


def register_contract(number: int) -> Callable[[Contract], Contract]:
    """Register a function as a contract."""

    def register(function: Contract) -> Contract:
        CONTRACTS[number] = function
        return function

    return register
