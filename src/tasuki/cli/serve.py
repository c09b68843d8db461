"""`tasuki serve`: the server of the fleet."""

import os
import sys
from pathlib import Path

import click

NEEDED = frozenset({
    "alembic", "dbos", "jinja2", "litestar", "markdown_it", "prometheus_client", "psycopg",
    "sqlalchemy", "uvicorn",
})  # fmt: skip
"""Packages of the extra `server`."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where to listen: an address of this machine.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True,
              help="Where to listen; 0 takes a free one.")  # fmt: skip
@click.option("--database-url", default="", metavar="URL", envvar="TASUKI_DATABASE_URL",
              help="postgresql://USER@HOST/NAME; without it a file of SQLite. "
              "A URL with a password belongs into TASUKI_DATABASE_URL.")  # fmt: skip
@click.option("--allow-remote", is_flag=True,
              help="Listen where other machines can reach it, unencrypted.")  # fmt: skip
@click.option("--moved", is_flag=True,
              help="The data folder came from another machine, or this one has a new id: agents that it "
              "knows of there are this machine's now.")  # fmt: skip
def serve(host: str, port: int, database_url: str, allow_remote: bool, moved: bool) -> None:
    """Serve the fleet: personas, agents in tmux, their hooks and handoffs.

    The dashboard is opened by tasuki dashboard --open; on a terminal the start prints a link too. The
    API needs the token from the file that is named at the start, and describes itself at /schema. Ctrl-C or SIGTERM ends it; handoffs under way go on at the next start.
    """
    from tasuki.config import loaded
    from tasuki.data_folder import writable_in_text
    from tasuki.errors import ExtraMissing

    try:
        from tasuki.web.server import serve as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in NEEDED:
            raise
        from tasuki.extras import install_line

        raise ExtraMissing(
            f"The server needs the extra `server`. Install it: {install_line('server')}"
        ) from error
    os.environ.pop(
        "TASUKI_DATABASE_URL", None
    )  # agents inherit the environment, and it may hold a password
    found = loaded(Path.cwd())
    for problem in found.problems:
        click.echo(f"tasuki: {problem}", err=True)
    run(
        writable_in_text() / "fleet", found, host=host, port=port, database_url=database_url,
        say=click.echo, allow_remote=allow_remote, moved=moved, shows_link=sys.stdout.isatty(),
    )  # fmt: skip
