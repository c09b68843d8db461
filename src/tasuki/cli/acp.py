"""`tasuki acp`: the ACP proxy on standard input and output."""

import click

EPILOG = """
\b
Set it up where your editor starts its agent, for example:
  tasuki acp -- gemini --acp
  tasuki acp -- npx @agentclientprotocol/claude-agent-acp
Without a command it is a proxy under an ACP conductor. Editors and agents: tasuki docs acp
"""


@click.command(epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def acp(command: tuple[str, ...]) -> int:
    """Put /handoff between an editor and any agent that speaks ACP.

    Starts the agent by its COMMAND and passes everything through. When you type /handoff [focus],
    the running session writes a handoff document, which is checked against its thread; a fresh
    session of the agent opens behind the same conversation and begins with it.
    """
    from tasuki.session.acp.serve import serve

    return serve(command)
