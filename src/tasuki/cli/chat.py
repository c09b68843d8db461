"""`tasuki chat`: talk to any agent that speaks ACP."""

import sys
from pathlib import Path

import click

EPILOG = """
\b
Talk to an agent, in this folder:
  tasuki chat --agent gemini
  tasuki chat --agent "my-agent --acp --model fast"
Go on with the newest session, or with one by its id:
  tasuki chat --resume
  tasuki chat --resume 01a1ffd2
In a script, one prompt a line:
  echo "list the open todos" | tasuki chat --agent opencode
"""
NEEDED = ("acp", "pydantic", "pydantic_core", "prompt_toolkit")


@click.command(epilog=EPILOG)
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
    help="Go on with the newest session of this folder, or the one whose id begins so.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default=Path(),
    help="Folder to work in.  [default: the current one]",
)
def chat(agent: str | None, resume: str | None, cwd: Path) -> None:
    """Talk to any agent that speaks the Agent Client Protocol, and hand off inside the conversation.

    /handoff [focus instructions] has the running session write a handoff document, which is checked
    beside its thread, and goes on with it in a fresh session. /help shows all commands and keys.
    Without a terminal, prompts are the lines of standard input.
    """
    from tasuki.errors import ExtraMissing

    try:
        from tasuki.session.chat.chat import Chat, until_ended
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in NEEDED:
            raise
        from tasuki.extras import install_line

        raise ExtraMissing(
            f"Talking to agents needs the extra `acp`. Install it: {install_line('acp')}"
        ) from error
    import asyncio

    from tasuki import config
    from tasuki.session.chat.starting import chosen_agent, session_file

    cwd = cwd.resolve()
    path = session_file(resume, cwd) if resume is not None else None
    loaded = config.loaded(cwd)
    for problem in loaded.problems:
        click.echo(f"tasuki: {problem}", err=True)
    conversation = Chat(chosen_agent(agent, path, cwd), cwd, loaded)
    in_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    run = conversation.in_terminal if in_terminal else conversation.without_terminal
    sys.exit(asyncio.run(until_ended(run(path))))
