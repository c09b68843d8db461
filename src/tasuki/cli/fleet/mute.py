"""`tasuki agent mute`: an agent whose alerts notify nobody."""

import click

from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import JSON_OPTION, print_json
from tasuki.errors import UsageError


@click.command()
@click.argument("id", type=int)
@click.option("--for", "span", default="", metavar="SPAN",
              help="30m, 1h, 2d or tomorrow. Default: until you unmute it.")  # fmt: skip
@click.option("--off", is_flag=True, help="Unmute it.")
@JSON_OPTION
def mute(id: int, span: str, off: bool, as_json: bool) -> None:
    """Mute an agent: its alerts are listed but notify nobody.

    It still counts among those that need you.
    """
    if span and off:
        raise UsageError("Give either --for or --off.")
    muted = create_client().post("agents", id, "mute", body={"for": "off" if off else span})
    if as_json:
        print_json({"agent": muted})
    else:
        click.echo(f"Agent {id} is {muted['muted'] or 'no longer muted'}.")
