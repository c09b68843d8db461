"""Asking the agent of a thread of Codex, in a fork that is not kept. Seen: 0.169."""

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.harness.jsonl import output_lines, understood
from tasuki.harness.plans import ask_place
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest, PlannedFile

_NAME = re.compile(r"[\w-]+")


class _Item(Struct):
    type: str = ""
    text: str = ""


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Error(Struct):
    message: str = ""


class _Event(Struct):
    """A line of `--json`; a turn ends with `turn.completed` or `turn.failed`."""

    type: str = ""
    item: _Item | None = None
    usage: _Usage | None = None
    error: _Error | None = None


_EVENT = msgspec.json.Decoder(_Event)


def plan(program: str, request: AskRequest, home: Path) -> AskPlan:
    """`codex exec fork --ephemeral ID`; `exec resume` would append, even with `--ephemeral`.

    Without hooks, `notify` and MCP servers: no sandbox holds these.
    """
    schema = Path(request.scratch, "schema.json")
    settings = ["features.hooks=false", "notify=[]"]
    cwd = ask_place(request)
    settings += _without_servers(home, Path(cwd))
    return AskPlan(
        argv=(
            *(program, "exec", "--sandbox", "read-only", "fork", "--ephemeral", "--json"),
            "--skip-git-repo-check",
            *(part for setting in settings for part in ("-c", setting)),
            *(("--output-schema", str(schema)) if request.schema else ()),
            *(request.thread.id, "-"),
        ),
        cwd=cwd,
        stdin=request.question,
        files=(PlannedFile(str(schema), request.schema),) if request.schema else (),
    )


def _without_servers(home: Path, cwd: Path) -> list[str]:
    """Settings that switch each MCP server off: an empty table would not replace them.

    Those of the project count only where it is trusted; else they would be unknown, and so each
    is told how it is reached, which is not used.
    """
    own = _servers(home)
    settings = [f"mcp_servers.{name}.enabled=false" for name in own]
    for folder in (cwd, *cwd.parents):
        for name, server in _servers(folder / ".codex").items():
            if name in own:
                continue
            own[name] = server
            reached = 'url="http://127.0.0.1"' if "url" in server else 'command="true"'
            settings += [f"mcp_servers.{name}.enabled=false", f"mcp_servers.{name}.{reached}"]
    return settings


def _servers(folder: Path) -> dict[str, Any]:
    """The MCP servers of one file of settings, by name; none if it cannot be read."""
    import tomllib

    try:
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    servers = config.get("mcp_servers")
    return (
        {n: s for n, s in servers.items() if _NAME.fullmatch(n)}
        if isinstance(servers, dict)
        else {}
    )


def answered(output: str) -> AskAnswer:
    """The last message; a turn that began and did not end was broken off."""
    text = error = ""
    began = ended = False
    usage = _Usage()
    for event in understood(output_lines(output), _EVENT):
        if event.type == "turn.started":
            began = True
        elif event.type == "item.completed" and event.item and event.item.type == "agent_message":
            text = event.item.text
        elif event.type == "turn.completed":
            ended, usage = True, event.usage or usage
        elif event.type == "turn.failed":
            ended, error = True, (event.error or _Error()).message or "the turn failed"
    return AskAnswer(
        text="" if error else text,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        aborted=began and not ended,
        error=error,
    )
