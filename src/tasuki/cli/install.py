"""`tasuki install` and `tasuki uninstall`: what is ours in a harness's own files."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tasuki import harness as harnesses
from tasuki.cli.printing import wrapped
from tasuki.config import tilde
from tasuki.errors import TasukiError
from tasuki.harness.install import Installer, Plan, Step, own_command
from tasuki.harness.integration import Addition, JsonEntry
from tasuki.harness.protocol import Harness
from tasuki.plain import shown
from tasuki.vault.store import data_folder

WIDTH = 72
"""Columns of what is said in sentences."""
SIGNS = {"add": "+", "replace": "~", "remove": "-", "there": "=", "foreign": "!"}
LEGEND = {"replace": "an older one is replaced", "there": "already there",
          "foreign": "there is one of yours, which stays"}  # fmt: skip


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...")
@click.option("--all", "every", is_flag=True, help="Every harness that is found on this machine.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "--print", "dry", is_flag=True, help="Show every line, write nothing.")
def install(names: tuple[str, ...], every: bool, yes: bool, dry: bool) -> int:
    """Add to a harness what lets you hand off inside it: a command, hooks, a skill, tools.

    What is added is shown first, with the files, and asked about. Nothing else in those files
    changes, and `tasuki uninstall` takes exactly that out again. Running it again brings it up to
    date. Without a HARNESS it says which are found here, and asks.
    """
    chosen = _chosen(names, every=every, dry=dry)
    return _each(chosen, yes=yes, dry=dry, remove=False)


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...")
@click.option("--all", "every", is_flag=True, help="Every harness that has something of tasuki.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "--print", "dry", is_flag=True, help="Show every line, write nothing.")
def uninstall(names: tuple[str, ...], every: bool, yes: bool, dry: bool) -> int:
    """Take out of a harness what `tasuki install` added, and nothing else."""
    if not names and not every:
        raise click.UsageError("Name a harness, for example: tasuki uninstall claude; or --all.")
    chosen = (
        _known(names)
        if names
        else [h for h in map(harnesses.get, harnesses.names()) if _has_ours(h)]
    )
    if not chosen:
        click.echo("Nothing of tasuki is in any harness.")
    return _each(chosen, yes=yes, dry=dry, remove=True)


# -- which -----------------------------------------------------------------------------


def _installable() -> list[Harness]:
    """The harnesses that something can be added to."""
    return [h for h in map(harnesses.get, harnesses.names()) if harnesses.integration(h)]


def _has_ours(harness: Harness) -> bool:
    """Whether there is something to take out, or a file in the way of looking."""
    made = harnesses.integration(harness)
    if made is None:
        return False
    try:
        return Installer(data_folder()).removal(harness.name, made.additions(own_command())).changes
    except TasukiError:
        return True


def _known(names: tuple[str, ...]) -> list[Harness]:
    found = [harnesses.get(name) for name in dict.fromkeys(names)]
    for harness in found:
        if harnesses.integration(harness) is None:
            can = ", ".join(able.name for able in _installable())
            raise click.UsageError(f"tasuki adds nothing to {harness.title}. It can: {can}.")
    return found


def _chosen(names: tuple[str, ...], *, every: bool, dry: bool) -> list[Harness]:
    """The harnesses that are meant: named, all that are here, or asked for."""
    if names:
        return _known(names)
    adapters = _installable()
    here = [harness for harness in adapters if shutil.which(harness.program)]
    if not here:
        can = ", ".join(harness.name for harness in adapters)
        raise click.UsageError(f"None of the programs is on your PATH. Name one: {can}.")
    if every:
        return here
    click.echo("Found on this machine:")
    for harness in here:
        click.echo(f"  {harness.name:<9} {harness.title}")
    if dry or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("Name those that are meant, or say --all.")
    said = click.prompt("Which (names, or all)", default="all")
    return here if said.strip() == "all" else _known(tuple(said.replace(",", " ").split()))


# -- what ------------------------------------------------------------------------------


def _each(chosen: list[Harness], *, yes: bool, dry: bool, remove: bool) -> int:
    """One harness after the other; 1 if one of them failed."""
    failed = 0
    for number, harness in enumerate(chosen):
        if number:
            click.echo()
        try:
            _one(harness, yes=yes, dry=dry, remove=remove)
        except TasukiError as error:
            click.echo(f"tasuki: {harness.title}: {shown(str(error))}", err=True)
            failed = 1
    return failed


def _one(harness: Harness, *, yes: bool, dry: bool, remove: bool) -> None:
    made = harnesses.integration(harness)
    if made is None:
        return
    installer, additions = Installer(data_folder()), made.additions(own_command())
    plan = (installer.removal if remove else installer.plan)(harness.name, additions)
    click.echo(harness.title)
    for line in _lines(plan, additions, whole=dry):
        click.echo(shown(line))
    if not plan.changes:
        click.echo("  Nothing of tasuki is there." if remove else "  Nothing to do.")
        return
    if dry:
        click.echo("  Nothing was written.")
        return
    if not yes:
        _confirm(harness, remove=remove)
    installer.carry_out(harness.name, additions, plan, remove=remove)
    if remove:
        click.echo("  Taken out.")
    else:
        click.echo(f"  Done. Hand off inside {harness.title}: {made.command}")
        for note in made.notes:
            click.echo("\n".join(_wrapped(note, "  ")))


def _confirm(harness: Harness, *, remove: bool) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("There is no terminal to ask in: add --yes, or look with --dry-run.")
    question = "Take this out" if remove else "Add this"
    if not click.confirm(f"  {question}?", default=not remove):
        raise click.Abort


def _lines(plan: Plan, additions: tuple[Addition, ...], *, whole: bool) -> Iterator[str]:
    """The steps, under the files that they belong to; with `whole` every line of them."""
    file = ""
    for step in plan.steps:
        if step.path != file:
            file = step.path
            yield f"  {tilde(Path(file))}{_fate(plan, file)}"
        told = f" ({LEGEND[step.action]})" if step.action in LEGEND else ""
        yield f"    {SIGNS[step.action]} {step.what}{told}"
        if whole and step.text:
            sign = "-" if step.action == "remove" else "+"
            yield from (f"      {sign} {line}" for line in step.text.strip("\r\n,").splitlines())
        if step.action == "foreign":
            yield from (f"      {line}" for line in _otherwise(step, additions))


def _fate(plan: Plan, path: str) -> str:
    """Whether a file is made, or goes."""
    if path not in plan.files:
        return ""
    if plan.files[path] is None:
        return " (goes)"
    return " (new)" if plan.before[path] is None else ""


def _otherwise(step: Step, additions: tuple[Addition, ...]) -> list[str]:
    """What the user can do about something of theirs in our place."""
    texts = [a.otherwise for a in additions if isinstance(a, JsonEntry) and a.what == step.what]
    return _wrapped(" ".join(texts))


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrapped(text, WIDTH - len(indent), indent, indent)
