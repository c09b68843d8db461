"""`tasuki dashboard`: sign a browser in to the dashboard, list the browsers that are, sign them out."""

import html
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tasuki.cli.fleet_client import Client

POLL_SECONDS = 0.3
PATIENCE_SECONDS = 20.0
"""How long a browser may take to open the page before it is said that it has not."""
OLD_SECONDS = 120.0
"""After this time the link of a page is over."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><title>tasuki</title></head>
<body><p><a href="{link}">Go to the dashboard</a></p></body></html>
"""


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--sessions", "lists", is_flag=True, help="List the browsers that are signed in.")
@click.option("--sign-out", metavar="ID|all", help="Sign a browser out, or every one.")
@click.option("--json", "as_json", is_flag=True, help="With --sessions: print JSON.")
def dashboard(opens: bool, lists: bool, sign_out: str | None, as_json: bool) -> None:
    """Print a link that opens the dashboard of the server which runs.

    It signs one browser in, once, within a minute. The browser stays signed in for 30 days, or 7
    without a visit, unless you sign it out. --open needs no link: other users of this machine can
    read none from the command line of the browser.
    """
    from tasuki.cli.fleet_client import Client

    server = Client()
    if sign_out is not None:
        _sign_out(server, sign_out)
    elif lists:
        _print_sessions(server, as_json=as_json)
    elif opens:
        _open_dashboard(server)
    else:
        made = server.post("login")
        click.echo(made["link"])
        _explain_name(made["link"])


def _open_dashboard(server: "Client") -> None:
    """Open a page of a private file that leads to the dashboard; the link is in no command line."""
    made = server.post("login")
    with _private_page(server.folder, made["link"]) as page:
        if not click.launch(page.as_uri()) and _await_use(server, made["id"]):
            return
    raise click.ClickException(
        "No browser opened the dashboard. Open the link in one yourself: tasuki dashboard"
    )


@contextmanager
def _private_page(folder: Path, link: str) -> Iterator[Path]:
    """A file of mode 600 with a page that goes on to a link; taken away at the end."""
    for old in folder.glob("open-*.html"):  # of a command that was killed
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > OLD_SECONDS:
                old.unlink()
    path = folder / f"open-{secrets.token_hex(8)}.html"
    number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(PAGE.format(link=html.escape(link)))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _await_use(server: "Client", id: str) -> bool:
    """Whether the link is used in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (state := server.get("login", id)["state"]) == "unused" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return bool(state == "used")


def _explain_name(link: str) -> None:
    """Where programs do not resolve names under localhost, a browser of the system may not either."""
    from urllib.parse import urlsplit

    name = urlsplit(link).hostname or ""
    if sys.platform == "darwin" and name.endswith(".localhost"):
        click.echo(
            f"If Safari does not find that name: echo '127.0.0.1 {name}' | sudo tee -a /etc/hosts",
            err=True,
        )


def _print_sessions(server: "Client", *, as_json: bool) -> None:
    from tasuki.cli.printing import print_json, table
    from tasuki.cli.threads import age

    found = server.get("sessions")["sessions"]
    if as_json:
        print_json({"sessions": found})
        return
    if not found:
        click.echo("No browser is signed in.", err=True)
        return
    now = time.time()
    rows = [
        _session_row(one, age(now - one["used_at"]), age(now - one["made_at"])) for one in found
    ]
    for line in table(("id", "used", "since", "browser"), rows):
        click.echo(line)


def _session_row(session: dict[str, Any], used: str, since: str) -> tuple[str, ...]:
    from tasuki.plain import one_line

    return (str(session["id"]), used, since, one_line(session["user_agent"], 120) or "-")


def _sign_out(server: "Client", which: str) -> None:
    if which == "all":
        count = server.post("sessions", "end")["ended"]
        click.echo(f"{count} browser{'' if count == 1 else 's'} signed out.")
        return
    if not which.isascii() or not which.isdigit():
        raise click.BadParameter(
            "Say an id of tasuki dashboard --sessions, or all.", param_hint="--sign-out"
        )
    server.post("sessions", which, "end")
    click.echo(f"Browser {which} is signed out.")
