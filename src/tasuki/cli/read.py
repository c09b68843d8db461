"""`tasuki read`: opens what `[#n]` in a brief stands for."""

import re

import click

_NUMBER = re.compile(r"[0-9]{1,9}")
_SPEC = re.compile(r"(?P<thread>[^#]+)(?:#(?P<refs>[\d,\-\s#]+))?")


@click.command()
@click.argument("spec", metavar="THREAD#N[-M][,K…]")
def read(spec: str) -> None:
    """Open the entries that a brief refers to.

    THREAD is a handoff id, as briefs name it, or a thread as `--from` takes it. The entry is read
    from the thread where it still stands unchanged, else from the copy kept with the handoff.
    Secrets are redacted.
    """
    from tasuki.cli.opening import entries

    match = _SPEC.fullmatch(spec.strip())
    if match is None or not match["refs"]:
        raise click.UsageError(
            "Name entries, for example: tasuki read 3fa9c1d2#12 or 3fa9c1d2#12-15,40"
        )
    for text in entries(match["thread"].strip(), _numbers(match["refs"])):
        click.echo(text)


def _numbers(text: str) -> list[int]:
    """`12-14,40` as 12, 13, 14, 40; at most 200 of them."""
    found: list[int] = []
    for part in text.replace("#", "").split(","):
        first, _, last = part.strip().partition("-")
        if not all(map(_NUMBER.fullmatch, (first, last.strip() or first))):
            raise click.UsageError(f"{part.strip()!r} is no entry; write 12 or 12-15.")
        if int(last or first) < int(first):
            raise click.UsageError(f"{part.strip()!r} runs backwards; write the smaller first.")
        found.extend(range(int(first), min(int(last or first), int(first) + 199) + 1))
    return found[:200]
