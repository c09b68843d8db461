"""No page and no answer of the API shows a secret, wherever in a row or a thread it stands."""

from __future__ import annotations

import html
import json
import random
import re
import time
from collections import Counter
from pathlib import Path

import fleet_records
import pytest
import sqlalchemy as sa
from secrets_generator import ALNUM, pick
from visitors import Visitor
from web_reader import reading
from web_servers import Served

from tasuki.fleet.store import tables
from tasuki_testing import ThreadBuilder

_ADDRESS = re.compile(r'(?:href|action|hx-get|data-url|data-live)="(/[^"#]*)')
_STATES = ("starting", "idle", "busy", "waiting", "limited", "stuck", "lost", "ended")
_MOST_OF_A_PATH = 4


class Secrets:
    """Makes secrets, each at the end of as many words as a list shows before it cuts."""

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.values: dict[str, str] = {}

    def token(self, where: str, words: int = 0) -> str:
        value = self.values[where] = pick(self.rng, ALNUM, 36)
        return f"{'word ' * words}ghp_{value}"

    def password(self, where: str) -> str:
        value = self.values[where] = f"Zq{pick(self.rng, ALNUM, 9)}7"
        return value

    def find_in(self, text: str) -> list[str]:
        """The secrets that a text shows, or eight characters of one."""
        return [
            where
            for where, value in self.values.items()
            if any(value[n : n + 8] in text for n in range(len(value) - 7))
        ]


def _write_thread(secrets: Secrets, folder: Path) -> ThreadBuilder:
    """A thread that says a password after its name, and later alone."""
    password = secrets.password("said alone")
    builder = ThreadBuilder("claude", cwd=str(folder)).user(secrets.token("user", 22))
    builder.shell("env", f"DB_PASSWORD={secrets.password('output')}", 1)
    builder.edit(f"src/{secrets.token('path')}.py", "a", "b").user(f"The password:\n{password}\nok")
    builder.assistant(f"done {password}")
    return builder.raw(type="custom-title", customTitle=secrets.token("title", 20))


def _write_agents(served: Served, secrets: Secrets, thread: str) -> list[int]:
    now, database = time.time(), served.fleet.database
    fleet_records.persona(
        database, automation_stopped=secrets.token("automation"), queue_stopped=secrets.token("queue")
    )  # fmt: skip
    ids = []
    for number, state in enumerate(_STATES):
        ids.append(fleet_records.agent(
            database, state=state, persona=None, host=served.fleet.host, state_at=now, started_at=now, goal=secrets.token(f"goal {state}", 30),
            session=f"0192d3c4-0000-7000-8000-{number:012d}", thread=thread if state == "busy" else "", order_id="", model="m",
            arguments=["--key", secrets.token(f"argument {state}")], end_reason=secrets.token(f"reason {state}", 58),
            children=[secrets.token(f"child {state}", 20)], waiting_for=secrets.token(f"wait {state}", 38), last_words=secrets.token(f"last {state}", 38),
            limit_text=secrets.token(f"limit {state}"), stuck_with=secrets.token(f"stuck {state}"), begun_branch=secrets.token(f"branch {state}"),
            cwd=f"/tmp/{secrets.token(f'cwd {state}')}", **({"ended_at": now} if state in ("lost", "ended") else {}),
        ))  # fmt: skip
    return ids


def _write_handoffs(served: Served, secrets: Secrets, agents: list[int]) -> list[str]:
    now, ids = time.time(), []
    for number, state in enumerate(("running", "failed", "done", "uncertain"), 1):
        ids.append(f"{number:08x}" * 4)
        failure = {
            "code": "document_missing", "step": "instruct", "sentence": secrets.token(f"failure {state}"), "remedy": secrets.token(f"remedy {state}"),
        }  # fmt: skip
        fleet_records.handoff(
            served.fleet.database, ids[-1], agents[number - 1], state=state, reason=secrets.token(f"why {state}", 30), context=secrets.token(f"context {state}"),
            goal=secrets.token(f"aim {state}"), injection_prompt=secrets.token(f"prompt {state}"), host=served.fleet.host,
            notes=[secrets.token(f"note {state}")], failure=failure if state in ("failed", "uncertain") else None,
        )  # fmt: skip
        step = {"handoff_id": ids[-1], "attempt": 1, "step": "instruct", "started_at": now, "ended_at": now, "outcome": "failed"}  # fmt: skip
        with served.fleet.database.write() as connection:
            connection.execute(
                sa.insert(tables.steps).values(**step, note=secrets.token(f"step {state}", 30))
            )  # fmt: skip
    return ids


def test_no_page_and_no_answer_shows_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser reaches only pages and answers that hide what is secret in rows, threads and titles."""
    secrets = Secrets()
    with reading(tmp_path, monkeypatch) as reader:
        served = reader.served
        thread = reader.thread(_write_thread(secrets, tmp_path))
        file = next(reader.projects.rglob("*.jsonl"))
        agents = _write_agents(served, secrets, str(file))
        handoffs = _write_handoffs(served, secrets, agents)
        brief = reader.brief(thread)
        waiting = [
            "/", thread, brief, "/threads?q=done", "/lineage", "/settings", "/personas", "/vault", "/handoffs", "/alerts", "/agents/new",
            *(f"{brief.partition('?')[0]}/entry/{n}" for n in range(1, 8)), *(f"/api/handoffs/{id}" for id in handoffs),
            *(f"/api/agents/{id}{part}" for id in agents for part in ("", "/changes")),
            *(f"/api/{name}" for name in ("fleet", "agents", "handoffs", "lineage", "log", "personas", "hosts", "alerts")),
        ]  # fmt: skip
        visitor, visits, leaks = Visitor(served), Counter[str](), {}
        while waiting:
            path = waiting.pop().partition("#")[0]
            visits[path.partition("?")[0]] += 1
            if path.startswith("/static/") or visits[path.partition("?")[0]] > _MOST_OF_A_PATH:
                continue
            answer = served.ask("GET", path) if path.startswith("/api") else visitor.get(path)
            text = answer.body.decode("utf-8", "replace")
            if found := secrets.find_in(text + json.dumps(dict(answer.headers))):
                leaks[path] = found
            if "html" in answer.headers.get("content-type", ""):
                waiting += map(html.unescape, _ADDRESS.findall(text))
            if location := answer.headers.get("location", ""):
                waiting.append(location)
    assert len(visits) > 100
    assert not leaks
