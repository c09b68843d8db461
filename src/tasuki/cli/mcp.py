"""`tasuki mcp`: the MCP server on standard input and output."""

import sys
from functools import partial

import click

EPILOG = """
\b
Register it, for example:
  claude mcp add tasuki -- tasuki mcp
  codex mcp add tasuki -- tasuki mcp
  gemini mcp add tasuki tasuki mcp
Other programs: tasuki docs mcp
"""


@click.command(epilog=EPILOG)
def mcp() -> None:
    """Serve handoffs, threads and their search as tools to agents, by the Model Context Protocol.

    An agent starts this itself and speaks to it on standard input and output. Tools: handoff,
    read_thread, find_threads, lineage. Resources: handoff://ID. Prompt: handoff.
    """
    from tasuki.cli.inside_fleet import hand_off_caller
    from tasuki.errors import ExtraMissing

    try:
        from tasuki.mcp import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "mcp",
            "pydantic",
            "mcp_types",
        ):
            raise
        from tasuki.extras import install_line

        raise ExtraMissing(
            f"The MCP server needs the extra `mcp`. Install it: {install_line('mcp')}"
        ) from error
    if sys.stdin.isatty():
        click.echo("Waiting for an agent on standard input; end with Ctrl-D.", err=True)
    serve(partial(hand_off_caller, by_model=True))
