"""`tasuki install` and `tasuki uninstall`: tasuki's parts in a harness's own files."""

import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct

from tasuki.cli.completions import complete_program
from tasuki.cli.output import get_width
from tasuki.config.settings import format_path
from tasuki.errors import InstallFailed, TasukiError
from tasuki.files import get_data_folder, require_text_path
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import Addition, JsonEntry
from tasuki.harness.protocol import Harness
from tasuki.install.files import remove_empty_folders
from tasuki.install.hook_script import get_script_path, remove_hook_script, write_hook_script
from tasuki.install.installer import Installer, InstallPlan, find_own_command
from tasuki.text_safety import clean_for_display, wrap_text

FLEET_PART, KEEP_PART = "fleet", "keep"
"""The part that the fleet's server needs, and the one for compactions, besides the ordinary one."""
WIDTH_COLUMNS = 70
"""Columns of printed sentences."""
SIGNS = {"add": "+", "replace": "~", "remove": "-", "there": "=", "foreign": "!", "by_hand": "!"}
LEGEND = {"replace": "an older one is replaced", "there": "already there",
          "foreign": "you have your own, which stays", "by_hand": "for you to do"}  # fmt: skip
NAMES_ARGUMENT = click.argument(
    "names", nargs=-1, metavar="[HARNESS]...", shell_complete=complete_program
)
YES_OPTION = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
DRY_OPTION = click.option(
    "--dry-run", "--print", "dry", is_flag=True, help="Show every line, write nothing."
)


@click.command()
@NAMES_ARGUMENT
@click.option("--all", "every", is_flag=True, help="Every harness that is found on this machine.")
@click.option(
    "--fleet", is_flag=True, help="Also the hooks by which `tasuki serve` sees its agents."
)
@click.option(
    "--keep",
    is_flag=True,
    help="Also the hooks by which compactions keep your rules and the state.",
)
@YES_OPTION
@DRY_OPTION
def install(
    names: tuple[str, ...], every: bool, fleet: bool, keep: bool, yes: bool, dry: bool
) -> int:
    """Add to a harness what lets you hand off inside it: a command, hooks, a skill, tools.

    The additions are shown first, with their files, and you are asked. Nothing else in those files
    changes, and `tasuki uninstall` removes exactly that again. Running it again brings it up to
    date. Without a HARNESS it lists those that are found here, and asks.
    """
    adapters = _choose_harnesses(names, every=every, dry=dry)
    if fleet and (unable := [h.title for h in adapters if harnesses.get_control(h) is None]):
        raise click.UsageError(f"{unable[0]} has no hooks by which its agents could be seen.")
    if keep and (unable := [h.title for h in adapters if not _list_keep_additions(h)]):
        raise click.UsageError(f"{unable[0]} lets no other program take part in its compaction.")
    parts = ("", *((FLEET_PART,) if fleet else ()), *((KEEP_PART,) if keep else ()))
    code = InstallRun(parts, yes, dry).process_all(adapters)
    folder = require_text_path() / "fleet"
    try:
        if fleet and not dry:
            write_hook_script(folder)
    except OSError as error:
        raise InstallFailed(f"{folder} cannot be written: {error.strerror}.") from error
    return code


@click.command()
@NAMES_ARGUMENT
@click.option("--all", "every", is_flag=True, help="Every harness that has a part of tasuki.")
@click.option("--fleet", is_flag=True, help="Only the hooks of the fleet.")
@click.option("--keep", is_flag=True, help="Only the hooks at compactions.")
@YES_OPTION
@DRY_OPTION
def uninstall(
    names: tuple[str, ...], every: bool, fleet: bool, keep: bool, yes: bool, dry: bool
) -> int:
    """Remove from a harness what `tasuki install` added, and nothing else.

    With --all it also lists what stays on this machine, such as stored handoffs, and the commands
    that remove that.
    """
    if not names and not every:
        raise click.UsageError("Name a harness, for example: tasuki uninstall claude; or --all.")
    adapters = _check_names(names) if names else [h for h in _list_all() if _has_additions(h)]
    if not adapters:
        click.echo("tasuki is not installed in any harness.")
    chosen = (*((FLEET_PART,) if fleet else ()), *((KEEP_PART,) if keep else ()))
    parts = chosen or (FLEET_PART, KEEP_PART, "")
    folders = Installer(get_data_folder()).list_created_folders()
    code = InstallRun(parts, yes, dry, remove=True).process_all(adapters)
    if not dry and not any(map(_has_fleet_hooks, _list_installable())):
        remove_hook_script(get_data_folder() / "fleet")
        remove_empty_folders(folders)
    if every and not chosen:
        from tasuki.cli.setup.remains import list_remains

        for line in list_remains():
            click.echo(clean_for_display(line))
    return code


# -- which -----------------------------------------------------------------------------


def _list_installable() -> list[Harness]:
    return [h for h in _list_all() if harnesses.get_integration(h)]


def _list_all() -> list[Harness]:
    return list(map(harnesses.get_harness, harnesses.list_names()))


def _has_additions(harness: Harness) -> bool:
    """Whether there is something to remove, or a file that cannot be checked."""
    try:
        installer = Installer(require_text_path())
        parts = (_build_part(harness, part) for part in ("", FLEET_PART, KEEP_PART))
        return any(installer.plan_removal(*part).has_work for part in parts)
    except TasukiError:
        return True


def _has_fleet_hooks(harness: Harness) -> bool:
    """Whether the hooks of the fleet are installed, or cannot be checked."""
    try:
        parts = Installer(require_text_path()).list_parts(*_build_part(harness, FLEET_PART))
        return any(part.state in ("there", "replace") for part in parts)
    except TasukiError:
        return True


def _build_part(harness: Harness, part: str) -> tuple[str, tuple[Addition, ...]]:
    """Return the recorded name of a part, and its additions: ordinary, or one of the others.

    They are recorded separately, so that one can be brought up to date without the other.
    """
    if part == FLEET_PART:
        control = harnesses.get_control(harness)
        script = str(get_script_path(require_text_path() / "fleet"))
        return f"{harness.name}/fleet", control.list_additions(script) if control else ()
    if part == KEEP_PART:
        return f"{harness.name}/keep", _list_keep_additions(harness)
    integration = harnesses.get_integration(harness)
    return harness.name, integration.list_additions(find_own_command()) if integration else ()


def _list_keep_additions(harness: Harness) -> tuple[Addition, ...]:
    integration = harnesses.get_integration(harness)
    return integration.list_compaction_additions(find_own_command()) if integration else ()


def _check_names(names: tuple[str, ...]) -> list[Harness]:
    adapters = [harnesses.get_harness(name) for name in dict.fromkeys(names)]
    for harness in adapters:
        if harnesses.get_integration(harness) is None:
            names_list = ", ".join(able.name for able in _list_installable())
            raise click.UsageError(
                f"tasuki adds nothing to {harness.title}. Possible: {names_list}."
            )
    return adapters


def _choose_harnesses(names: tuple[str, ...], *, every: bool, dry: bool) -> list[Harness]:
    """Choose the harnesses: those named, all that are installed, or those the user enters."""
    if names:
        return _check_names(names)
    adapters = _list_installable()
    installed = [harness for harness in adapters if shutil.which(harness.program)]
    if not installed:
        can = ", ".join(harness.name for harness in adapters)
        raise click.UsageError(f"None of the programs is on your PATH. Name one: {can}.")
    if every:
        return installed
    click.echo("Found on this machine:")
    for harness in installed:
        click.echo(f"  {harness.name:<9} {harness.title}")
    if dry or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("Name one or more, or use --all.")
    answer = click.prompt("Which (names, or all)", default="all")
    if answer.strip() == "all":
        return installed
    return _check_names(tuple(answer.replace(",", " ").split()))


# -- what ------------------------------------------------------------------------------


class InstallRun(Struct, frozen=True):
    """What to do to harnesses: install, or `remove`; `dry` writes nothing, `yes` asks nothing."""

    parts: tuple[str, ...]
    yes: bool
    dry: bool
    remove: bool = False

    def process_all(self, adapters: list[Harness]) -> int:
        """Process one harness after the other; return 1 if one of them failed."""
        failed = 0
        for number, harness in enumerate(adapters):
            if number:
                click.echo()
            try:
                self._process_harness(harness)
            except TasukiError as error:
                click.echo(f"tasuki: {harness.title}: {clean_for_display(str(error))}", err=True)
                failed = 1
        return failed

    def _process_harness(self, harness: Harness) -> None:
        click.echo(harness.title)
        integration, control = harnesses.get_integration(harness), harnesses.get_control(harness)
        obstacles: list[str] = []
        if integration and not self.remove:
            obstacles = [*integration.find_obstacles(), *integration.describe_own_command()]
        if not self.remove and not shutil.which(harness.program):
            obstacles.append(
                f"There is no {harness.program} on your PATH. This can be added before it is there."
            )
        for sentence in obstacles:
            _print_sentence(sentence, "  ! ", "    ")
        parts = (part for part in self.parts if part != FLEET_PART or control)
        plans = [self._process_part(harness, part) for part in parts]
        has_changes = any(plan.has_changes for plan in plans)
        rest = any(plan.to_add or plan.to_remove for plan in plans)
        if not has_changes and not rest:
            click.echo("  Nothing of tasuki is installed." if self.remove else "  Nothing to do.")
        elif self.dry:
            click.echo("  Nothing was written.")
        elif has_changes and self.remove:
            click.echo("  The rest is removed." if rest else "  Removed.")
        elif has_changes:
            click.echo("  The rest is done." if rest else "  Done.", nl=False)
            if integration:
                click.echo(f" Hand off inside {harness.title}: {integration.command}")
            if KEEP_PART not in self.parts and _list_keep_additions(harness):
                offer = f"tasuki install {harness.name} --keep"
                _print_sentence(f"To keep your rules through a compaction: {offer}")
            notes = list(integration.notes if integration else ())
            notes += control.notes if control and FLEET_PART in self.parts else ()
            for note in dict.fromkeys(notes):
                _print_sentence(note)

    def _process_part(self, harness: Harness, part: str) -> InstallPlan:
        """Show and carry out one part; return what there was to do."""
        record, additions = _build_part(harness, part)
        installer = Installer(require_text_path())
        plan = (installer.plan_removal if self.remove else installer.plan)(record, additions)
        if self.remove and not plan.has_work:
            return plan
        for line in _format_plan(plan, additions, whole=self.dry):
            click.echo(clean_for_display(line))
        for work, what in ((plan.to_remove, "Remove this from"), (plan.to_add, "Add this to")):
            for path, text in work.items():
                file = format_path(Path(path))
                _print_sentence(f"{file} cannot be written. {what} your configuration:")
                click.echo(clean_for_display(textwrap.indent(text.strip("\r\n,"), "      ")))
        if plan.damaged:
            _print_sentence(
                f"The record of what tasuki installed cannot be read. It is kept as {format_path(Path(plan.damaged))}; tasuki's parts are recognized by their marks."
            )
        if not plan.has_changes or self.dry:
            return plan
        if not self.yes:
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                raise click.UsageError(
                    "There is no terminal to ask in: add --yes, or check with --dry-run."
                )
            question = "Remove this" if self.remove else "Add this"
            if not click.confirm(f"  {question}?", default=not self.remove):
                raise click.Abort
        installer.apply_plan(record, additions, plan, remove=self.remove)
        return plan


def _format_plan(
    plan: InstallPlan, additions: tuple[Addition, ...], *, whole: bool
) -> Iterator[str]:
    """Format the steps under their files; with `whole` every line of them."""
    file = ""
    for step in plan.steps:
        if step.path != file:
            file = step.path
            yield f"  {format_path(Path(file))}{_describe_file(plan, file)}"
        legend = f" ({LEGEND[step.action]})" if step.action in LEGEND else ""
        yield f"    {SIGNS[step.action]} {step.what}{legend}"
        if whole and step.text:
            sign = "-" if step.action == "remove" else "+"
            yield from (f"      {sign} {line}" for line in step.text.strip("\r\n,").splitlines())
        if step.action == "foreign":  # What the user can do about an entry of theirs.
            own = [a for a in additions if isinstance(a, JsonEntry) and a.what == step.what]
            texts = " ".join(addition.otherwise for addition in own)
            yield from (f"      {line}" for line in wrap_text(texts, WIDTH_COLUMNS))


def _describe_file(plan: InstallPlan, path: str) -> str:
    if path not in plan.files:
        return ""
    if plan.files[path] is None:
        return " (will be removed)"
    return " (new)" if plan.before[path] is None else ""


def _print_sentence(text: str, first: str = "  ", rest: str = "  ") -> None:
    width = min(get_width(WIDTH_COLUMNS), WIDTH_COLUMNS)
    click.echo("\n".join(wrap_text(clean_for_display(text), width, first, rest)))
