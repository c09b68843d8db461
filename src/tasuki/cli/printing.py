"""What commands print in one way."""

from collections.abc import Mapping

import click


def print_json(document: Mapping[str, object]) -> None:
    """One JSON document on standard output, with the version of its layout in front."""
    import msgspec

    whole = msgspec.json.encode({"version": 1, **document})
    click.echo(msgspec.json.format(whole, indent=2).decode())
