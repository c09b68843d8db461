"""`tasuki serve` and `tasuki dashboard`: the server of the fleet, and browsers that sign in to it."""

import html
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import click
from click.core import ParameterSource

from tasuki.cli.output import format_age, format_table, need_extra, print_records
from tasuki.config.settings import list_unknown_variables, load_with_sources
from tasuki.errors import UsageError
from tasuki.files import create_file, require_text_path
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from tasuki.cli.fleet.client import FleetClient

NEEDED_MODULES = (
    "dbos jinja2 litestar markdown_it prometheus_client psycopg sqlalchemy uvicorn".split()
)
"""Packages of the extra `server`."""


def _refuse_password(context: click.Context, option: click.Parameter, url: str) -> str:
    """Refuse a password on the command line, which every user of the machine can read."""
    if context.get_parameter_source(option.name or "") == ParameterSource.COMMANDLINE:
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.password or "password" in parse_qs(parts.query):
                raise UsageError(
                    "A password on the command line is there for every user of this machine to read. Put the URL into "
                    "the variable TASUKI_DATABASE_URL and leave --database-url out."
                )
    return url


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to listen on.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True,
              help="Port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--database-url", default="", metavar="URL", envvar="TASUKI_DATABASE_URL",
              callback=_refuse_password,
              help="postgresql://USER@HOST/NAME. Default: the one from tasuki host join, or a SQLite file. "
              "A URL with a password belongs in TASUKI_DATABASE_URL: here it is refused.")  # fmt: skip
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Allow an address that other machines can reach, unencrypted.",
)
@click.option("--moved", is_flag=True,
              help="The data folder came from another machine, or this one has a new id: agents that are "
              "recorded there now belong to this machine.")  # fmt: skip
def serve(host: str, port: int, database_url: str, allow_remote: bool, moved: bool) -> None:
    """Serve the fleet: personas, agents in tmux, their hooks and handoffs.

    tasuki dashboard --open opens the dashboard; in a terminal a link is printed too. The API is
    described at /schema and needs the token from the file named at the start. Ctrl-C or SIGTERM ends
    the server; handoffs under way continue at the next start.
    """
    with need_extra("server", "The server", *NEEDED_MODULES):
        from tasuki.fleet.membership.urls import read_url
        from tasuki.web.server import serve as run
    # agents inherit the environment, and the URL may have a password
    os.environ.pop("TASUKI_DATABASE_URL", None)
    folder = require_text_path() / "fleet"
    database_url = database_url or read_url(folder)
    configuration = load_with_sources(Path.cwd())
    unknown = (sentence for _, sentence in list_unknown_variables())
    for problem in (*configuration.problems, *unknown):
        click.echo(f"tasuki: {problem}", err=True)
    run(
        folder, configuration, host=host, port=port, database_url=database_url,
        print_line=click.echo, allow_remote=allow_remote, moved=moved, shows_link=sys.stdout.isatty(),
    )  # fmt: skip


POLL_SECONDS = 0.3
PATIENCE_SECONDS = 20.0
"""How long a browser may take to open the page before it counts as failed."""
LINK_SECONDS = 120.0
"""After this time the link of a page is no longer valid."""
PAGE_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><title>tasuki</title></head>
<body><p><a href="{link}">Go to the dashboard</a></p></body></html>
"""


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--sessions", "lists", is_flag=True, help="List the browsers that are signed in.")
@click.option("--sign-out", metavar="ID|all", help="Sign out one browser, or all.")
@click.option("--local", is_flag=True,
              help="Print the link for this machine even if public_url is set.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="With --sessions: print JSON.")
def dashboard(opens: bool, lists: bool, sign_out: str | None, local: bool, as_json: bool) -> None:
    """Print a link that opens the dashboard of the running server.

    The link leads to public_url if that is set, otherwise to this machine. It signs in one browser,
    once, within a minute, for 30 days, or 7 without a visit. --open keeps the link off the browser's
    command line, which other users of this machine could read.
    """
    from tasuki.cli.fleet.client import FleetClient

    server = FleetClient()
    if sign_out is not None:
        _sign_out(server, sign_out)
    elif lists:
        _print_sessions(server, as_json=as_json)
    elif opens:
        _open_dashboard(server, local=local)
    else:
        link = server.post("login")["local_link" if local else "link"]
        click.echo(link)
        name = urlsplit(link).hostname or ""
        if sys.platform == "darwin" and name.endswith(".localhost"):  # Safari may not resolve it.
            line = f"echo '127.0.0.1 {name}' | sudo tee -a /etc/hosts"
            click.echo(f"If Safari does not find that name: {line}", err=True)


def _open_dashboard(server: "FleetClient", *, local: bool = False) -> None:
    """Open a private file that leads to the dashboard, so no command line has the link."""
    login = server.post("login")
    deadline = time.monotonic() + PATIENCE_SECONDS
    with _write_private_page(server.folder, login["local_link" if local else "link"]) as page:
        is_failed = click.launch(page.as_uri())
        while not is_failed:
            state = server.get("login", login["id"])["state"]
            if state == "used":
                return
            is_failed = state != "unused" or time.monotonic() >= deadline
            time.sleep(POLL_SECONDS)
    raise click.ClickException(
        "No browser opened the dashboard. Open the link in one yourself: tasuki dashboard"
    )


@contextmanager
def _write_private_page(folder: Path, link: str) -> Iterator[Path]:
    """Write a file of mode 600 with a page that leads to a link; remove it at the end."""
    for old in folder.glob("open-*.html"):  # left by a command that was killed
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > LINK_SECONDS:
                old.unlink()
    path = folder / f"open-{secrets.token_hex(8)}.html"
    create_file(path, PAGE_TEMPLATE.format(link=html.escape(link)).encode(), synced=False)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _print_sessions(server: "FleetClient", *, as_json: bool) -> None:
    sessions = server.get("sessions")["sessions"]
    now = time.time()
    rows = [
        (
            str(one["id"]),
            format_age(now - one["used_at"]),
            format_age(now - one["made_at"]),
            shorten_to_line(one["user_agent"], 120) or "-",
        )
        for one in sessions
    ]
    table = format_table(("id", "used", "since", "browser"), rows)
    print_records(as_json, "sessions", sessions, table, "No browser is signed in.")


def _sign_out(server: "FleetClient", session_id: str) -> None:
    if session_id == "all":
        count = server.post("sessions", "end")["ended"]
        click.echo(f"{count} browser{'' if count == 1 else 's'} signed out.")
        return
    if not session_id.isascii() or not session_id.isdigit():
        raise click.BadParameter(
            "Give an id of tasuki dashboard --sessions, or all.", param_hint="--sign-out"
        )
    server.post("sessions", session_id, "end")
    click.echo(f"Browser {session_id} is signed out.")
