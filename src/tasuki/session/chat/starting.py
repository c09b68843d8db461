"""Which agent a chat begins with, and which session it goes on with."""

import shutil
from pathlib import Path

from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.session.acp_program import PROGRAMS, AcpProgram, acp_program
from tasuki.session.chat.conversation import AGENT
from tasuki.session.manager import SessionManager, sessions

NEWEST = "newest"


def session_file(id: str, cwd: Path) -> Path:
    """The file of a session of a folder, by the beginning of its id, or `newest`.

    Raises ThreadNotFound, UsageError if it is ambiguous.
    """
    heads = sessions(cwd)
    named = [head for head in heads if head.id.startswith(id)]
    found = heads[:1] if id == NEWEST else named
    if not found:
        which = "" if id == NEWEST else f" that begins with {id!r}"
        raise ThreadNotFound(f"There is no session{which} of {cwd}. Begin one: tasuki chat")
    if len(found) > 1:
        raise UsageError(f"{len(found)} sessions begin with {id!r}; give more of the id.")
    return Path(found[0].path)


def chosen_agent(agent: str | None, session: Path | None, cwd: Path) -> AcpProgram:
    """The agent that was named, else that of the session, else the first one that is installed.

    Raises HarnessMissing, UsageError.
    """
    if agent is not None:
        return acp_program(agent)
    heads = [] if session else sessions(cwd)[:1]
    before = session or (Path(heads[0].path) if heads else None)
    if before is not None and (command := _agent_of(before)):
        return acp_program(command)
    for name, program in PROGRAMS.items():
        if shutil.which(program.command[0]):
            return acp_program(name)
    known = ", ".join(PROGRAMS)
    raise UsageError(
        f'No agent that speaks ACP was found. Name one: --agent "gemini --acp", or one of {known}'
    )


def _agent_of(path: Path) -> str:
    """The command of the agent that a session was held with."""
    try:
        branch = SessionManager.open(path).get_branch()
    except TasukiError:
        return ""
    entry = next((e for e in reversed(branch) if e.get("customType") == AGENT), None)
    return str(((entry or {}).get("data") or {}).get("command") or "")
