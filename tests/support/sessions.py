"""Running sessions for tests: a scripted agent that has done some work, and what it is asked for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from fakes.session_backend import BackendRule, ScriptedBackend, ScriptedTurn

from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings
from tasuki.session.agent_session.backend import SessionEvent, TextPiece, ToolProgress
from tasuki.session.agent_session.session import AgentSession
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import Json
from tasuki.vault import Vault

REQUEST = "Write a handoff document"
DOCUMENT = """\
## Goal
- Make the parser accept tabs in `src/parser.py`

## Constraints & Preferences
- "keep the public API as it is"

## Progress
### Done
- Read `src/parser.py`
### In Progress
- (none)
### Blocked
- (none)

## Key Decisions
- Tabs count as one blank

## Critical Context
- The tokenizer lives in `src/parser.py`

## Next Steps
- Write tests/test_tabs.py"""
FIRST = "Make the parser in src/parser.py accept tabs, and keep the public API as it is."
READ = ToolProgress(
    "t1", "Read src/parser.py", "read", "completed", {}, ("src/parser.py",), (), "class Parser: ..."
)
WORK = (TextPiece("I will look at the parser."), READ, TextPiece("Tabs count as one blank."))
WORKED = BackendRule("accept tabs", (ScriptedTurn(WORK),))


def says(*documents: str) -> BackendRule:
    """The agent's answers to the request for a document, in order."""
    return BackendRule(REQUEST, tuple(ScriptedTurn((TextPiece(text),)) for text in documents))


class Desk:
    """A session that was worked in, in a folder of its own."""

    def __init__(
        self, folder: Path, backend: ScriptedBackend, loaded: LoadedSettings, **options: int
    ) -> None:
        self.backend = backend
        self.vault = Vault(folder / "handoffs")
        manager = SessionManager.create(folder, folder / "sessions")
        self.session = AgentSession(manager, backend, loaded, vault=self.vault, **options)
        self.events: list[SessionEvent] = []
        self.session.subscribe(self.events.append)

    @property
    def manager(self) -> SessionManager:
        """The session in use."""
        return self.session.manager

    async def worked(self) -> "Desk":
        """The same once the agent has done something."""
        await self.session.start()
        await self.session.prompt(FIRST)
        return self

    def of(self, kind: type) -> list[SessionEvent]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


Make = Callable[..., Desk]


def lines(path: Path) -> list[Json]:
    """The records of a session file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def messages(path: Path) -> list[tuple[str, str]]:
    """Role and text of every message in a session file."""
    said = [line["message"] for line in lines(path) if line["type"] == "message"]
    return [(m["role"], "\n".join(b.get("text", "") for b in m["content"])) for m in said]


def making(folder: Path) -> Iterator[Make]:
    """Makes desks in a folder, whose agents follow some rules; they are closed at the end."""
    (folder / "src").mkdir()
    settings = config.load_with_sources(folder)
    made: list[Desk] = []

    def make(
        *rules: BackendRule, loaded: LoadedSettings = settings, refuses: str = "", **options: int
    ) -> Desk:
        backend = ScriptedBackend((*rules, WORKED), refuses=refuses)
        made.append(Desk(folder, backend, loaded, **options))
        return made[-1]

    yield make
    for desk in made:
        desk.manager.close()
