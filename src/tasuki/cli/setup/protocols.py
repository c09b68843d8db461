"""The commands that speak with agents, editors and harnesses: chat, acp, mcp, hook, status."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from tasuki.cli.completions import complete_program
from tasuki.cli.output import need_extra

CHAT_EPILOG = """
\b
Talk to an agent, in this folder:
  tasuki chat --agent gemini
  tasuki chat --agent "my-agent --acp --model fast"
Continue the newest session, or one by its id:
  tasuki chat --resume
  tasuki chat --resume 01a1ffd2
In a script, one prompt a line:
  echo "list the open todos" | tasuki chat --agent opencode
"""
ACP_EPILOG = """
\b
Set it up where your editor starts its agent, for example:
  tasuki acp -- gemini --acp
  tasuki acp -- npx @agentclientprotocol/claude-agent-acp
Without a command it is a proxy under an ACP conductor. Editors and agents: tasuki docs editors
"""
MCP_EPILOG = """
\b
Register it, for example:
  claude mcp add tasuki -- tasuki mcp
  codex mcp add tasuki -- tasuki mcp
  gemini mcp add tasuki tasuki mcp
Other programs: tasuki docs mcp
"""


@click.command(epilog=CHAT_EPILOG)
@click.option(
    "--agent",
    metavar="AGENT",
    help="A command that speaks ACP, or: gemini, opencode, omp, copilot, claude, codex, pi. "
    "Default: that of the newest session of this folder, else the first one that is installed.",
)
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value="newest",
    help="Continue the newest session of this folder, or the one whose id begins with ID.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default=Path(),
    help="Folder to work in.  [default: the current one]",
)
def chat(agent: str | None, resume: str | None, cwd: Path) -> None:
    """Talk to any agent that speaks the Agent Client Protocol, and hand off inside the conversation.

    /handoff [focus] lets the running session write a handoff document, checks it, and continues with
    it in a fresh session. /help shows commands and keys. Without a terminal, each line of standard
    input is a prompt.
    """
    with need_extra(
        "acp", "Talking to agents", "acp", "pydantic", "pydantic_core", "prompt_toolkit"
    ):
        from tasuki.session.chat.chat import TerminalChat, run_until_ended
    import asyncio

    from tasuki.config import settings
    from tasuki.session.chat.chat import choose_agent, find_session_file

    cwd = cwd.resolve()
    path = find_session_file(resume, cwd) if resume is not None else None
    loaded = settings.load_with_sources(cwd)
    for problem in loaded.problems:
        click.echo(f"tasuki: {problem}", err=True)
    conversation = TerminalChat(choose_agent(agent, path, cwd), cwd, loaded)
    in_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    run = conversation.run_in_terminal if in_terminal else conversation.run_plain
    sys.exit(asyncio.run(run_until_ended(run(path))))


@click.command(epilog=ACP_EPILOG, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def acp(command: tuple[str, ...]) -> int:
    """Put /handoff between an editor and any agent that speaks ACP.

    Starts the agent by its COMMAND and passes everything through. When you type /handoff [focus],
    the running session writes a handoff document, which is checked against its thread; a fresh
    session of the agent opens in the same conversation and begins with it.
    """
    from tasuki.session.acp.serve import serve

    return serve(command)


@click.command(epilog=MCP_EPILOG)
def mcp() -> None:
    """Serve handoffs, threads and their search as tools to agents, by the Model Context Protocol.

    An agent starts this itself and speaks to it on standard input and output. Tools: handoff,
    read_thread, find_threads, lineage. Resources: handoff://ID. Prompt: handoff.
    """
    from tasuki.cli.fleet.client import hand_off_caller

    with need_extra("mcp", "The MCP server", "mcp", "pydantic", "mcp_types"):
        from tasuki.mcp import serve
    if sys.stdin.isatty():
        click.echo("Waiting for an agent on standard input; end with Ctrl-D.", err=True)
    serve(partial(hand_off_caller, by_model=True))


@click.command()
@click.argument("harness", shell_complete=complete_program)
@click.option("--later", is_flag=True, hidden=True)
def hook(harness: str, later: bool) -> None:
    """Answer a hook of a harness: its payload on standard input, what it prints on standard output.

    Harnesses call this; `tasuki install HARNESS` puts it into their hooks.
    """
    from tasuki.session.hook import MOST_PAYLOAD_BYTES, answer_hook, work_after_turn

    payload = sys.stdin.buffer.read(MOST_PAYLOAD_BYTES)
    if later:  # The turn's end was answered by the shell.
        work_after_turn(harness, payload)
    elif output := answer_hook(harness, payload, _hand_off_in_fleet):
        click.echo(output, color=True)


def _hand_off_in_fleet(goal: str, sessions: Sequence[str]) -> str:
    from tasuki.cli.fleet.client import hand_off_caller  # needed by few hooks, and slow to load

    return hand_off_caller(goal, sessions)


@click.command()
@click.argument("harness", shell_complete=complete_program)
def status(harness: str) -> None:
    """Print the part of a status line that shows the context use.

    The harness gives its status as JSON on standard input. `tasuki install claude` makes it the
    status line if you have none.
    """
    from tasuki.files import get_data_folder
    from tasuki.install.hook_script import send_status
    from tasuki.session.hook import build_status_line

    payload = sys.stdin.buffer.read(1 << 20)
    send_status(get_data_folder() / "fleet", harness, payload)
    if output := build_status_line(harness, payload):
        click.echo(output)
