"""What the fleet's commands ask the server: HTTP with the standard library alone.

Address and token come from the files that the server writes into `<data>/fleet/`.
"""

import json
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tasuki import errors
from tasuki.data_folder import data_folder, find_fault, tell_fault
from tasuki.errors import ServerAway, TasukiError
from tasuki.web.single import is_stale

PAGE = 1000
"""Rows of one answer."""
SECONDS = 150.0
"""Time limit of an answer: to end an agent takes the longest."""
MOST_LINE = 4 << 20

Told = dict[str, Any]


class Client:
    """The server of the fleet on this machine. Raises ServerAway where none answers.

    What the server refuses is raised as what it was there: AgentNotFound, NotPossible, …
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder() / "fleet"

    def get(self, *path: object, **query: object) -> Told:
        """`GET /api/PATH`; parameters of the query that are None are left out."""
        given = {name: _word(value) for name, value in query.items() if value is not None}
        return self._asked("GET", path, query=urlencode(given))

    def get_pages(
        self, what: str, limit: int | None = None, **query: object
    ) -> list[dict[str, Any]]:
        """All of `GET /api/WHAT`, page after page, or the newest `limit` of them."""
        found: list[dict[str, Any]] = []
        before: object = None
        while limit is None or len(found) < limit:
            size = PAGE if limit is None else min(limit - len(found), PAGE)
            page = self.get(what, limit=size, before=before, **query)
            found += page[what]
            before = page["next"]
            if before is None:
                break
        return found

    def post(self, *path: object, body: Mapping[str, object] | None = None, key: str = "") -> Told:
        """`POST /api/PATH`; `key` names what is asked for, so that it is done once."""
        return self._asked("POST", path, body=body or {}, key=key)

    def patch(self, *path: object, body: Mapping[str, object]) -> Told:
        """`PATCH /api/PATH`."""
        return self._asked("PATCH", path, body=body)

    def delete(self, *path: object) -> Told:
        """`DELETE /api/PATH`."""
        return self._asked("DELETE", path)

    def address(self) -> str:
        """Where it answers, as `host:port`. Raises ServerAway."""
        return self._file("address").partition("\n")[0]

    def patiently(self, *path: object, seconds: float, away: Any) -> Told:
        """`GET /api/PATH`; a server that is away is asked again for so long, `away` called once."""
        deadline, told = time.monotonic() + seconds, False
        while True:
            try:
                return self.get(*path)
            except ServerAway as error:
                if time.monotonic() > deadline:
                    raise
                if not told:
                    away(error)
                told = True
                time.sleep(0.3)

    def events(self) -> Iterator[Told]:
        """Lines of the fleet's log as they come, until the server ends."""
        connection, answer = self._answer("GET", "/api/events", None, timeout=60.0)
        try:
            while line := answer.readline(MOST_LINE):
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        except (OSError, HTTPException, ValueError) as error:
            raise ServerAway(f"The server's live events broke off: {error}.") from error
        finally:
            connection.close()

    def _asked(
        self,
        method: str,
        path: tuple[object, ...],
        *,
        query: str = "",
        body: Mapping[str, object] | None = None,
        key: str = "",
    ) -> Told:
        where = "/".join(quote(str(part), safe="") for part in ("api", *path))
        connection, answer = self._answer(method, f"/{where}?{query}".rstrip("?"), body, key=key)
        try:
            told = json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            raise ServerAway(f"The server's answer broke off: {error}.") from error
        finally:
            connection.close()
        if not isinstance(told, dict):
            raise ServerAway("What answers at the server's address is no server of tasuki.")
        return told

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        timeout: float = SECONDS,
        key: str = "",
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """A connection with an answer that is none of an error."""
        described = self._file("address")
        address = described.partition("\n")[0]
        if is_stale(described):  # whoever has its port now is not told the token
            raise ServerAway(f"The server at http://{address} is gone. Start one: tasuki serve")
        headers = {"Authorization": f"Bearer {self._file('token')}"}
        if key:
            headers["Idempotency-Key"] = key
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        host, _, port = address.rpartition(":")
        connection = HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
        except TimeoutError as error:
            connection.close()
            raise ServerAway(
                f"The server at http://{address} did not answer within {timeout:.0f} s. Its log says why."
            ) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise ServerAway(
                f"No server answers at http://{address}. Start one: tasuki serve"
            ) from error
        if answer.status != 200:
            said = answer.read(1 << 20)
            connection.close()
            raise _error(answer.status, said)
        return connection, answer

    def _file(self, name: str) -> str:
        path = self.folder / name
        if reason := find_fault(self.folder.parent):
            raise ServerAway(tell_fault(self.folder.parent, reason))
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise ServerAway(
                f"No server of the fleet runs (there is no {path}). Start one: tasuki serve"
            ) from None
        except OSError as error:
            raise ServerAway(f"{path} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise ServerAway(f"{path} cannot be read: {error}.") from error
        if name == "address" and not text.partition("\n")[0].rpartition(":")[2].isdigit():
            raise ServerAway(f"{path} holds no address. Start the server anew: tasuki serve")
        return text


def _word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _error(status: int, said: bytes) -> TasukiError:
    """The error that an answer tells of."""
    try:
        told = json.loads(said)
        sentence, kind = str(told["error"]), str(told.get("kind", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerAway(
            f"What answers at the server's address is no server of tasuki ({status})."
        )
    if status == 401:
        return ServerAway("The server does not know this token. Was it started with other data?")
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, TasukiError):
        return known(sentence)
    return TasukiError(sentence)
