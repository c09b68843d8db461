"""What every way of starting a successor needs first: the program, the folder, the files."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tasuki.errors import HarnessMissing, LaunchFailed
from tasuki.files import create_file
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import LaunchPlan, PlannedFile


class LaunchResult(Struct, frozen=True):
    """A successor that was started.

    `target` is its place: `session:window` in tmux, the terminal's device here. `filled`
    says whether the text of the plan is in its input, where the plan had one. `code` is
    the exit status of a program that ran in this terminal and ended; a signal n gives 128 + n.
    `attach` is the command that shows it, where it is not on the screen already. `back` says
    how to come back to the window of this program, where the successor's took its place.
    """

    how: str
    target: str = ""
    pane: str = ""
    pid: int = 0
    filled: bool = False
    code: int | None = None
    attach: tuple[str, ...] = ()
    back: str = ""


def build_environment(plan: LaunchPlan) -> dict[str, str]:
    """Build the user's own environment without what the plan unsets, with what it sets."""
    inherited = {name: value for name, value in os.environ.items() if name not in plan.unset}
    return inherited | plan.env


def build_command(plan: LaunchPlan) -> list[str]:
    """Build the plan's argv with the program as an absolute path.

    Raises HarnessMissing where it is not installed, LaunchFailed where the folder is gone.
    """
    name = plan.argv[0]
    if not os.path.isdir(plan.cwd):
        raise LaunchFailed(
            f"The folder {plan.cwd} is gone. Create it again, or choose another: --cwd."
        )
    if not (program := shutil.which(name, path=build_environment(plan).get("PATH"))):
        package = harnesses.find_facts(name).package
        advice = f"Install it: npm install -g {package}" if package else "Install it first."
        raise HarnessMissing(f"The program {name} is not on your PATH. {advice}")
    # No argument can hold a NUL, and no program takes one for a word.
    return [os.path.abspath(program), *(word.replace("\0", "") for word in plan.argv[1:])]


@contextmanager
def write_planned_files(plan: LaunchPlan) -> Iterator[None]:
    """Write the files of a plan; if the body raises, the successor never ran and they are removed.

    Nothing is overwritten: LaunchFailed where a file exists or cannot be written.
    """
    written: list[Path] = []
    try:
        for file in plan.files:
            _write_file(file)
            written.append(Path(file.path))
        yield
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _write_file(file: PlannedFile) -> None:
    path = Path(file.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        create_file(path, file.content.encode("utf-8", "replace"), file.mode)
    except FileExistsError as error:
        raise LaunchFailed(f"{path} already exists and is not overwritten. Try again.") from error
    except OSError as error:
        raise LaunchFailed(f"{path} cannot be written: {error.strerror}.") from error
