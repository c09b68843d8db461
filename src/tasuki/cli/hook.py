"""`tasuki hook` and `tasuki status`: what harnesses call, not people."""

import sys

import click


@click.command()
@click.argument("harness")
def hook(harness: str) -> None:
    """Answer a hook of a harness: its payload on standard input, what it prints on standard output.

    Harnesses call this; `tasuki install HARNESS` puts it into their hooks.
    """
    from tasuki.cli.inside_fleet import hand_off_caller
    from tasuki.session.hook import MAX_PAYLOAD, answered

    said = answered(harness, sys.stdin.buffer.read(MAX_PAYLOAD), hand_off_caller)
    if said:
        click.echo(said, color=True)


@click.command()
@click.argument("harness")
def status(harness: str) -> None:
    """Print the part of a status line that tells the context use.

    The harness gives its status as JSON on standard input. `tasuki install claude` makes it the
    status line where you have none of your own.
    """
    from tasuki.data_folder import data_folder
    from tasuki.harness.hook_script import tell_status
    from tasuki.session.suggest import status_line

    payload = sys.stdin.buffer.read(1 << 20)
    tell_status(data_folder() / "fleet", harness, payload)
    if said := status_line(harness, payload):
        click.echo(said)
