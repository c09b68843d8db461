"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`. Seen: 0.53 to 0.169."""

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import ThreadUnreadable
from tasuki.harness import protocol
from tasuki.harness.codex.format import read_history_base
from tasuki.harness.codex.head import SUFFIX, CodexHead, find_rollout, get_home, unpack
from tasuki.harness.optional import ThreadFollower, ThreadPart
from tasuki.harness.plans import AnswerError, AnswerUsage, choose_ask_folder
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.reading.jsonl import TextPart, decode_lines, split_output
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

_NAME = compile_pattern(r"[\w-]+")


class Codex(ProgramHarness):
    """The adapter of Codex."""

    name = "codex"
    title = "Codex"
    program = "codex"
    head = CodexHead
    prefix = "Codex"
    ready = r"^› "
    skill_mark = "$"
    key_variables = ("OPENAI_API_KEY", "CODEX_API_KEY")
    caller = protocol.CallerIdentity(
        "codex-mcp-client", meta=("x-codex-turn-metadata", "thread_id")
    )
    facts = protocol.HarnessFacts(
        package="@openai/codex",
        tested="0.169.0",
        process_names=("codex",),
        child_variables=(
            "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT", "CODEX_SESSION_ID", "CODEX_THREAD_ID",
        ),
        acp=protocol.AcpCommand(("codex-acp",), "@agentclientprotocol/codex-acp", 5),
        pane_lies=True,  # Hooks run in its daemon where there is one.
        restarts_in_place=True,  # `/new` is one.
    )  # fmt: skip

    def read(self, path: Path) -> Thread:
        with ExitStack() as stack:
            thread = self._read_unpacked(path, stack)
        return replace(thread, sources=(str(path),)) if path.suffix == SUFFIX else thread

    def read_for_draft(self, path: Path) -> Thread:
        """Read a thread; what is unpacked for it stays for as long as this adapter does."""
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        return self._read_unpacked(path, stack)

    def _read_unpacked(self, path: Path, stack: ExitStack) -> Thread:
        """Read a rollout, and those of its parents, from where packed ones are unpacked to."""

        def find_parent(id: str) -> Path | None:
            found = find_rollout(id, path)
            return stack.enter_context(unpack(found)) if found else None

        plain = stack.enter_context(unpack(path))
        try:
            return replace(self.build_reader(plain, find_parent).read(), path=str(path))
        except ThreadUnreadable as error:
            raise ThreadUnreadable(str(error).replace(str(plain), str(path))) from error

    def follow(self, path: Path) -> ThreadFollower | None:
        if path.suffix == SUFFIX:
            return None
        return self.build_reader(path, lambda id: find_rollout(id, path), follows=True)

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the rollout, and the beginnings of its parents that belong to its history."""
        parts = [ThreadPart(path.name, str(path))]
        while base := read_history_base(Path(parts[-1].path)):
            parent = find_rollout(base.thread_id, path)
            if parent is None or any(parent.name == part.name for part in parts):
                break
            parts.append(ThreadPart(parent.name, str(parent), limit=base.end_byte_offset))
        return tuple(parts)

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".codex" / "skills", cwd / ".agents" / "skills", get_home() / "skills")

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `codex exec fork --ephemeral ID`, a fork that is not kept. Seen: 0.169.

        `exec resume` would append, even with `--ephemeral`. Hooks, `notify` and MCP servers are
        switched off: no sandbox confines these.
        """
        schema = Path(request.scratch, "schema.json")
        settings = ["features.hooks=false", "notify=[]"]
        cwd = choose_ask_folder(request)
        settings += _build_server_switches(get_home(), Path(cwd))
        switches = [part for setting in settings for part in ("-c", setting)]
        shape = ("--output-schema", str(schema)) if request.schema else ()
        run = (self.program, "exec", "--sandbox", "read-only", "fork", "--ephemeral", "--json")
        return protocol.AskPlan(
            argv=(*run, "--skip-git-repo-check", *switches, *shape, request.thread.id, "-"),
            cwd=cwd,
            stdin=request.question,
            files=(protocol.PlannedFile(str(schema), request.schema),) if request.schema else (),
        )

    def parse_answer(self, output: str, request: protocol.AskRequest) -> protocol.AskAnswer:
        """Parse the last message; a turn that began and did not end was interrupted."""
        text = error = ""
        began = ended = False
        usage = AnswerUsage()
        for event in decode_lines(split_output(output), _EVENT):
            item = event.item
            if event.type == "turn.started":
                began = True
            elif event.type == "item.completed" and item and item.type == "agent_message":
                text = item.text
            elif event.type == "turn.completed":
                ended, usage = True, event.usage or usage
            elif event.type == "turn.failed":
                ended = True
                error = (event.error or AnswerError()).message or "the turn failed"
        return protocol.AskAnswer(
            text="" if error else text,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            aborted=began and not ended,
            error=error,
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        return [get_home() / "auth.json"], [get_home() / "config.toml"]

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        return ("--", prompt) if prompt.startswith("-") else (prompt,)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "resume", thread.id)


def _build_server_switches(home: Path, cwd: Path) -> list[str]:
    """Build settings that switch each MCP server off: an empty table would not replace them.

    Servers of the project count only where it is trusted. Otherwise they would be unknown, so
    each gets an address, which is not used.
    """
    own = _read_servers(home)
    settings = [f"mcp_servers.{name}.enabled=false" for name in own]
    for folder in (cwd, *cwd.parents):
        for name, server in _read_servers(folder / ".codex").items():
            if name in own:
                continue
            own[name] = server
            address = 'url="http://127.0.0.1"' if "url" in server else 'command="true"'
            settings += [f"mcp_servers.{name}.enabled=false", f"mcp_servers.{name}.{address}"]
    return settings


def _read_servers(folder: Path) -> dict[str, Any]:
    """Read the MCP servers of one settings file, by name; none if it cannot be read."""
    import tomllib

    try:
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    servers = config.get("mcp_servers")
    known = servers if isinstance(servers, dict) else {}
    return {name: server for name, server in known.items() if _NAME.fullmatch(name)}


# -- what an agent answers -----------------------------------------------------------------


class _CodexAnswerEvent(Struct):
    """A line of `--json`; a turn ends with `turn.completed` or `turn.failed`."""

    type: str = ""
    item: TextPart | None = None
    usage: AnswerUsage | None = None
    error: AnswerError | None = None


_EVENT = msgspec.json.Decoder(_CodexAnswerEvent)
