"""`tasuki install` and `tasuki uninstall`: what is ours in a harness's own files."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tasuki import harness as harnesses
from tasuki.cli.printing import wrapped
from tasuki.config import tilde
from tasuki.data_folder import writable_in_text
from tasuki.errors import InstallFailed, TasukiError
from tasuki.harness.hook_script import path_in, write_hook_script
from tasuki.harness.install import Installer, Plan, Step, own_command
from tasuki.harness.integration import Addition, JsonEntry
from tasuki.harness.protocol import Harness
from tasuki.plain import shown

FLEET = "fleet"
"""The part that the fleet's server needs, beside the ordinary one."""
WIDTH = 72
"""Columns of what is said in sentences."""
SIGNS = {"add": "+", "replace": "~", "remove": "-", "there": "=", "foreign": "!"}
LEGEND = {"replace": "an older one is replaced", "there": "already there",
          "foreign": "there is one of yours, which stays"}  # fmt: skip


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...")
@click.option("--all", "every", is_flag=True, help="Every harness that is found on this machine.")
@click.option(
    "--fleet", is_flag=True, help="Also the hooks by which `tasuki serve` sees its agents."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "--print", "dry", is_flag=True, help="Show every line, write nothing.")
def install(names: tuple[str, ...], every: bool, fleet: bool, yes: bool, dry: bool) -> int:
    """Add to a harness what lets you hand off inside it: a command, hooks, a skill, tools.

    What is added is shown first, with the files, and asked about. Nothing else in those files
    changes, and `tasuki uninstall` takes exactly that out again. Running it again brings it up to
    date. Without a HARNESS it says which are found here, and asks.
    """
    chosen = _chosen(names, every=every, dry=dry)
    if fleet:
        _can_run(chosen)
        if not dry:
            _write_hook_script()
    return _each(chosen, ("", FLEET) if fleet else ("",), yes=yes, dry=dry, remove=False)


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...")
@click.option("--all", "every", is_flag=True, help="Every harness that has something of tasuki.")
@click.option("--fleet", is_flag=True, help="Only the hooks of the fleet.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "--print", "dry", is_flag=True, help="Show every line, write nothing.")
def uninstall(names: tuple[str, ...], every: bool, fleet: bool, yes: bool, dry: bool) -> int:
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
    return _each(chosen, (FLEET,) if fleet else (FLEET, ""), yes=yes, dry=dry, remove=True)


# -- which -----------------------------------------------------------------------------


def _installable() -> list[Harness]:
    """The harnesses that something can be added to."""
    return [h for h in map(harnesses.get, harnesses.names()) if harnesses.integration(h)]


def _has_ours(harness: Harness) -> bool:
    """Whether there is something to take out, or a file in the way of looking."""
    try:
        return any(
            Installer(writable_in_text()).removal(record, additions).changes
            for record, additions in (_part(harness, part) for part in ("", FLEET))
        )
    except TasukiError:
        return True


def _part(harness: Harness, part: str) -> tuple[str, tuple[Addition, ...]]:
    """The name under which a part is recorded, and what belongs to it: the ordinary one, or the fleet's.

    They are recorded apart, so that one can be brought up to date without the other.
    """
    if part == FLEET:
        control = harnesses.control(harness)
        script = str(path_in(writable_in_text() / "fleet"))
        return f"{harness.name}/fleet", control.additions(script) if control else ()
    made = harnesses.integration(harness)
    return harness.name, made.additions(own_command()) if made else ()


def _can_run(chosen: list[Harness]) -> None:
    if lacking := [harness.title for harness in chosen if harnesses.control(harness) is None]:
        raise click.UsageError(f"{lacking[0]} has no hooks by which its agents could be seen.")


def _write_hook_script() -> None:
    folder = writable_in_text() / "fleet"
    try:
        write_hook_script(folder)
    except OSError as error:
        raise InstallFailed(f"{folder} cannot be written: {error.strerror}.") from error


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


def _each(
    chosen: list[Harness], parts: tuple[str, ...], *, yes: bool, dry: bool, remove: bool
) -> int:
    """One harness after the other; 1 if one of them failed."""
    failed = 0
    for number, harness in enumerate(chosen):
        if number:
            click.echo()
        try:
            _one(harness, parts, yes=yes, dry=dry, remove=remove)
        except TasukiError as error:
            click.echo(f"tasuki: {harness.title}: {shown(str(error))}", err=True)
            failed = 1
    return failed


def _one(harness: Harness, parts: tuple[str, ...], *, yes: bool, dry: bool, remove: bool) -> None:
    click.echo(harness.title)
    changed = [
        _one_part(harness, part, yes=yes, dry=dry, remove=remove)
        for part in parts
        if part != FLEET or harnesses.control(harness)
    ]
    if not any(changed):
        click.echo("  Nothing of tasuki is there." if remove else "  Nothing to do.")
    elif dry:
        click.echo("  Nothing was written.")
    elif remove:
        click.echo("  Taken out.")
    else:
        _done(harness, parts)


def _done(harness: Harness, parts: tuple[str, ...]) -> None:
    made, control = harnesses.integration(harness), harnesses.control(harness)
    if made:
        click.echo(f"  Done. Hand off inside {harness.title}: {made.command}")
    notes = (*(made.notes if made else ()), *(control.notes if control and FLEET in parts else ()))
    for note in dict.fromkeys(notes):
        click.echo("\n".join(_wrapped(note, "  ")))


def _one_part(harness: Harness, part: str, *, yes: bool, dry: bool, remove: bool) -> bool:
    """Show and carry out one part; whether there was something to do."""
    record, additions = _part(harness, part)
    installer = Installer(writable_in_text())
    plan = (installer.removal if remove else installer.plan)(record, additions)
    if not plan.changes and remove:
        return False
    for line in _lines(plan, additions, whole=dry):
        click.echo(shown(line))
    if plan.damaged:
        told = f"The record of what tasuki installed cannot be read. It is kept as {tilde(Path(plan.damaged))}; what is ours is told by its marks."
        click.echo("\n".join(_wrapped(told, "  ")))
    if not plan.changes or dry:
        return plan.changes
    if not yes:
        _confirm(harness, remove=remove)
    installer.carry_out(record, additions, plan, remove=remove)
    return True


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
