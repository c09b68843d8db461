"""A client of the fleet's server for the commands, and handoffs requested inside its agents.

It speaks HTTP with the standard library alone. Address and token come from the files that the
server writes into `<data>/fleet/`. The server decides whether a caller is inside an agent: by the
token that an agent was started with, by its session, or by the processes above the caller. A
session that runs inside an agent's is not the agent.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tasuki import errors
from tasuki.errors import ServerAway, TasukiError
from tasuki.files import describe_fault, find_fault, get_data_folder
from tasuki.harness import registry as harnesses
from tasuki.harness.plans import TOKEN
from tasuki.launch.processes import list_ancestors
from tasuki.web.security.single_server import is_stale

PAGE_ROWS = 1000
"""Rows of one answer."""
ANSWER_SECONDS = 150.0
"""Time limit of an answer: ending an agent takes the longest."""
AWAY_SECONDS = 120.0
"""How long to wait for a server that does not answer."""
MOST_LINE_BYTES = 4 << 20

JsonObject = dict[str, Any]


class FleetClient:
    """A client of the fleet's server on this machine.

    Raises ServerAway where none answers. A refusal of the server is raised as the same error:
    AgentNotFound, NotPossible, …
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or get_data_folder() / "fleet"

    def is_running(self) -> bool:
        """Whether a server of this folder runs, as its address says."""
        try:
            return not is_stale(self._read_file("address"))
        except ServerAway:
            return False

    def get(self, *path: object, **query: object) -> JsonObject:
        """Send `GET /api/PATH`; query parameters that are None are left out."""
        parameters = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
            if value is not None
        }
        return self._send_request("GET", path, query=urlencode(parameters))

    def get_pages(
        self, resource: str, limit: int | None = None, **query: object
    ) -> list[dict[str, Any]]:
        """Return all rows of `GET /api/RESOURCE`, page after page, or the newest `limit` of them."""
        rows: list[dict[str, Any]] = []
        before: object = None
        while limit is None or len(rows) < limit:
            size = PAGE_ROWS if limit is None else min(limit - len(rows), PAGE_ROWS)
            page = self.get(resource, limit=size, before=before, **query)
            rows += page[resource]
            before = page["next"]
            if before is None:
                break
        return rows

    def post(
        self, *path: object, body: Mapping[str, object] | None = None, key: str = ""
    ) -> JsonObject:
        """Send `POST /api/PATH`; `key` names the request, so that it is carried out once."""
        return self._send_request("POST", path, body=body or {}, key=key)

    def patch(self, *path: object, body: Mapping[str, object]) -> JsonObject:
        """Send `PATCH /api/PATH`."""
        return self._send_request("PATCH", path, body=body)

    def delete(self, *path: object) -> JsonObject:
        """Send `DELETE /api/PATH`."""
        return self._send_request("DELETE", path)

    def await_server(self, *path: object) -> JsonObject:
        """Send `GET /api/PATH`; say so, and retry for two minutes, while no server answers."""
        deadline, is_reported = time.monotonic() + AWAY_SECONDS, False
        while True:
            try:
                return self.get(*path)
            except ServerAway as error:
                if time.monotonic() > deadline:
                    raise
                if not is_reported:
                    note = f"{error}\nWaiting for it; the handoff continues then."
                    print(note, file=sys.stderr, flush=True)
                is_reported = True
                time.sleep(0.3)

    def stream_events(self) -> Iterator[JsonObject]:
        """Yield lines of the fleet's log as they come, until the server ends."""
        connection, answer = self._open_answer("GET", "/api/events", None, timeout=60.0)
        try:
            while line := answer.readline(MOST_LINE_BYTES):
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        except (OSError, HTTPException, ValueError) as error:
            raise ServerAway(f"The server's live events were interrupted: {error}.") from error
        finally:
            connection.close()

    def _send_request(
        self,
        method: str,
        path: tuple[object, ...],
        *,
        query: str = "",
        body: Mapping[str, object] | None = None,
        key: str = "",
    ) -> JsonObject:
        resource = "/".join(quote(str(part), safe="") for part in ("api", *path))
        target = f"/{resource}?{query}".rstrip("?")
        connection, answer = self._open_answer(method, target, body, key=key)
        try:
            document = json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            raise ServerAway(f"The server's answer was interrupted: {error}.") from error
        finally:
            connection.close()
        if not isinstance(document, dict):
            raise ServerAway("The program at the server's address is not a tasuki server.")
        return document

    def _open_answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        timeout: float = ANSWER_SECONDS,
        key: str = "",
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Open a connection with an answer that is no error."""
        address_file = self._read_file("address")
        address = address_file.partition("\n")[0]
        if is_stale(address_file):  # Another program may have its port now, and not the token.
            raise ServerAway(f"The server at http://{address} is gone. Start one: tasuki serve")
        headers = {"Authorization": f"Bearer {self._read_file('token')}"}
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
                f"The server at http://{address} did not answer within {timeout:.0f} s. The reason is in its log."
            ) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise ServerAway(
                f"No server answers at http://{address}. Start one: tasuki serve"
            ) from error
        if answer.status != 200:
            content_read = answer.read(1 << 20)
            connection.close()
            raise _build_error(answer.status, content_read)
        return connection, answer

    def _read_file(self, name: str) -> str:
        path = self.folder / name
        if reason := find_fault(self.folder.parent):
            raise ServerAway(describe_fault(self.folder.parent, reason))
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise ServerAway(
                f"No server of the fleet runs (there is no {path}). Start one: tasuki serve"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ServerAway(f"{path} cannot be read: {why}.") from error
        if name == "address" and not text.partition("\n")[0].rpartition(":")[2].isdigit():
            raise ServerAway(f"{path} holds no address. Restart the server: tasuki serve")
        return text


def _build_error(status: int, content: bytes) -> TasukiError:
    try:
        document = json.loads(content)
        sentence, kind = str(document["error"]), str(document.get("kind", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerAway(f"The program at the server's address is not a tasuki server ({status}).")
    if status == 401:
        return ServerAway("The server does not know this token. Was it started with other data?")
    error_class = getattr(errors, kind, None)
    if isinstance(error_class, type) and issubclass(error_class, TasukiError):
        return error_class(sentence)
    return TasukiError(sentence)


REQUEST_REASON = "asked for in the agent"
MOST_REASON_CHARACTERS = 4000
"""Most characters of a reason that the server takes."""
OUTSIDE_FLAG = "--no-fleet"
OUTSIDE_ADVICE = f"To hand off to a successor that the fleet does not know: {OUTSIDE_FLAG}"


def find_own_agent(sessions: Sequence[str] = ()) -> dict[str, Any] | None:
    """Find the fleet's agent that the caller is a part of; None where it is in none.

    `sessions` are ids or paths of the calling thread, where the harness gives them. Raises
    ServerAway where an agent of the fleet started the caller, and no server answers.
    """
    token = os.environ.get(TOKEN, "")
    client = FleetClient()
    if not token and not (client.folder / "address").exists():
        return None
    body = {"token": token, "sessions": [s[:4096] for s in sessions if s], "processes": list_ancestors(os.getpid())}  # fmt: skip
    try:
        agent: dict[str, Any] | None = client.post("agents", "own", body=body)["agent"]
    except ServerAway as error:
        if not token:
            return None
        raise ServerAway(
            f"This runs inside an agent of the fleet, whose server does not answer: nothing was started. {error}\n{OUTSIDE_ADVICE}"
        ) from error
    return agent


def find_calling_sessions() -> list[str]:
    """Find ids or paths of threads that the environment names as the caller's."""
    variables = (harnesses.get_harness(name).caller.variable for name in harnesses.list_names())
    return [session for name in variables if name and (session := os.environ.get(name))]


def hand_off_own(agent: dict[str, Any], goal: str, *, by_model: bool = False) -> str:
    """Ask the fleet to hand an agent off with a goal; return what happens now, as sentences.

    A goal that the model proposes is no order of the user: it is passed as the reason. Raises
    TasukiError.
    """
    id = agent["id"]
    proposal = {
        "reason": f"{REQUEST_REASON}, which proposes as next: {goal}"[:MOST_REASON_CHARACTERS]
    }
    body = proposal if by_model else {"reason": REQUEST_REASON, "goal": goal}
    try:
        handoff = FleetClient().post("agents", id, "handoff", body=body)
    except TasukiError as error:
        raise type(error)(
            f"The fleet refused to hand agent {id} off: {error}\n{OUTSIDE_ADVICE}"
        ) from error
    return (
        f"Handoff {handoff['id'][:8]} of agent {id} ({handoff['persona']}) begins. As soon as nothing of it runs, the "
        "agent is asked for its handoff document and ends; its successor continues with that goal. "
        "If you are the agent: end your turn now. The steps: tasuki handoffs --agents"
    )


def hand_off_caller(goal: str, sessions: Sequence[str], *, by_model: bool = False) -> str:
    """Hand off the agent that the caller is a part of; empty where it is in none.

    Raises TasukiError.
    """
    agent = find_own_agent(sessions)
    return hand_off_own(agent, goal, by_model=by_model) if agent else ""
