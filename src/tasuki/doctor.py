"""What works with each harness on this machine, and the one line that mends what does not.

Nothing is started but the programs' own `--version`, side by side and with a time limit.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki import __version__, config
from tasuki import harness as harnesses
from tasuki.data_folder import data_folder
from tasuki.errors import TasukiError
from tasuki.harness.hook_script import hook_script, path_in
from tasuki.harness.install import RECORD, Installer, Standing, own_command
from tasuki.harness.integration import Addition
from tasuki.harness.jsonl import UNDECODABLE, noted_unreadable, scanned
from tasuki.harness.protocol import Harness
from tasuki.harness.writing import read, reason_of
from tasuki.launch.prepare import PACKAGES
from tasuki.threads.catalog import read_ends, read_whole

TESTED = {
    "claude": "2.1.330",
    "codex": "0.169.0",
    "pi": "1.5.2",
    "omp": "18.2.3",
    "gemini": "0.61.0",
    "copilot": "1.0.102",
    "opencode": "1.18.33",
}
"""Versions that the tests of this release drove."""
TMUX_NEEDED = (3, 2)
VERSION_SECONDS = 1.4
"""Time limit of a program that is asked for its version."""
WHOLE_BYTES = 40 << 20
"""A newest thread up to this size is read to its end, of a larger one the head."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?[-.\w]*")


class Problem(Struct, frozen=True):
    """Something that does not work, and the one line that mends it."""

    what: str
    mend: str


class Threads(Struct, frozen=True):
    """The threads of a harness; `newest` is the path of the newest one."""

    count: int = 0
    newest: str = ""
    readable: bool = True


class Part(Struct, frozen=True):
    """One thing that tasuki adds: there, replace (an older one is), add (none is), foreign."""

    what: str
    path: str
    state: str
    programs: tuple[str, ...] = ()


class FleetState(Struct, frozen=True):
    """What agents in tmux need: curl by its path, the script of their hooks (current, older, missing).

    `waiting` counts the events that were kept for the server while it was away.
    """

    curl: str
    script: str
    waiting: int


class Examined(Struct, frozen=True):
    """What was found out about one harness."""

    name: str
    title: str
    program: str
    """Path of its program, empty where it is not on the PATH."""
    version: str
    tested: str
    threads: Threads
    can_start: bool
    """A successor can be started in it here."""
    can_prefill: bool
    command: str
    """How a handoff begins inside it, empty where nothing can be installed."""
    parts: tuple[Part, ...]
    fleet: tuple[Part, ...]
    """The hooks of a fleet, which `tasuki install --fleet` adds; none where there can be no agents."""
    problems: tuple[Problem, ...]

    @property
    def installed(self) -> bool:
        """Whether something of tasuki is there."""
        return is_in(self.parts)

    @property
    def here(self) -> bool:
        """Whether there is anything to say about it."""
        found = self.program or self.threads.count or self.installed or is_in(self.fleet)
        return bool(found or self.problems)


class Report(Struct, frozen=True):
    """What was found out: about tasuki itself, and about each harness."""

    tasuki: str
    command: str
    data: str
    tmux: str
    extras: dict[str, bool]
    fleet: FleetState | None
    """None where no fleet is in use: nothing of it was ever installed or started."""
    harnesses: tuple[Examined, ...]
    problems: tuple[Problem, ...]

    @property
    def broken(self) -> bool:
        """Whether something does not work that is meant to."""
        return bool(self.problems) or any(harness.problems for harness in self.harnesses)


def examine(names: Sequence[str] = ()) -> Report:
    """Look at every harness, or at those that are named. Raises UsageError for an unknown name."""
    chosen = [harnesses.get(name) for name in names or harnesses.names()]
    with ThreadPoolExecutor(max_workers=16) as pool:
        tmux = pool.submit(_version, "tmux", "-V")
        versions = [pool.submit(_program_version, harness) for harness in chosen]
        found = list(pool.map(_threads, chosen))
        examined = tuple(
            _examined(harness, version.result(), *threads)
            for harness, version, threads in zip(chosen, versions, found, strict=True)
        )
    extras = {name: find_spec(module) is not None for name, module in _EXTRAS.items()}
    fleet = _fleet(examined)
    return Report(
        tasuki=__version__,
        command=shlex.join(own_command()),
        data=str(data_folder()),
        tmux=tmux.result(),
        extras=extras,
        fleet=fleet,
        harnesses=examined,
        problems=(
            *_own_problems(data_folder()),
            *_settings_problems(),
            *(_fleet_problems(fleet, tmux.result(), examined) if fleet else ()),
        ),
    )


_EXTRAS = {"review": "textual", "mcp": "mcp", "model": "pydantic_ai", "acp": "acp", "notify": "apprise", "server": "litestar"}  # fmt: skip


def _settings_problems() -> Iterator[Problem]:
    """What is wrong with the settings that hold here."""
    try:
        problems = config.loaded(Path.cwd()).problems
    except TasukiError as error:
        problems = (str(error),)
    yield from (Problem(problem, "tasuki config") for problem in problems)


def _own_problems(data: Path) -> Iterator[Problem]:
    folder = data
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if _is_closed(data):
        yield Problem(f"tasuki cannot read {folder}, where it keeps handoffs and what it installed.",
                      "give yourself the right to, or: export TASUKI_DATA=/some/folder")  # fmt: skip
        return
    record = data / RECORD
    try:
        if (content := read(str(record))) is not None:
            msgspec.json.decode(content)
    except (TasukiError, *UNDECODABLE) as error:
        yield Problem(f"The record of what tasuki installed cannot be read: {record}: {error}.",
                      "tasuki install (keeps the damaged one beside it)")  # fmt: skip
    if not os.access(folder, os.W_OK):
        yield Problem(f"tasuki cannot write to {data}, where it keeps handoffs.",
                      "export TASUKI_DATA=/some/folder")  # fmt: skip


def _is_closed(folder: Path) -> bool:
    """Whether a folder that is there, or the nearest one above it, cannot be read."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return not os.access(folder, os.R_OK | os.X_OK)


def _program_version(harness: Harness) -> str:
    """The version of its program: from the npm package that it lies in, else it is asked."""
    found = shutil.which(harness.program) if harness.program else None
    if not found:
        return ""
    package = PACKAGES.get(harness.name, "")
    for folder in Path(os.path.realpath(found)).parents[:5] if package else ():
        try:
            about = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package)
        except (OSError, *UNDECODABLE):
            continue
        if about.name == package:
            return about.version
    return _version(found, "--version")


class _Package(Struct):
    name: str = ""
    version: str = ""


def _version(program: str, flag: str) -> str:
    """What a program says that it is; `?` where it does not say, empty where it is not there."""
    found = shutil.which(program)
    if not found:
        return ""
    try:
        done = subprocess.run(
            [found, flag], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=VERSION_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    said = _VERSION.search(done.stdout) or _VERSION.search(done.stderr)
    return said[0] if said else "?"


# -- one harness -----------------------------------------------------------------------


def _threads(harness: Harness) -> tuple[Threads, list[Problem]]:
    """How many there are, and whether the newest that holds a conversation can be read."""
    with noted_unreadable() as closed:
        files = sorted(harness.files(), key=lambda file: file.modified, reverse=True)
        newest = next((f for f in files[:20] if read_ends(harness, f) is not None), None)
    mend = (
        f"see who may read it: ls -ld {shlex.quote(closed[0].split(' cannot be ')[0])}"
        if closed and "defect" not in closed[0]
        else ""
    )
    problems = [Problem(sentence, mend) for sentence in closed[:1]]
    if not files:
        return Threads(), problems
    newest = newest or files[0]
    try:
        if newest.bytes <= WHOLE_BYTES:
            read_whole(harness, newest.path)
    except TasukiError as error:
        problems.append(Problem(f"The newest thread cannot be read: {error}",
                                f"tasuki threads --harness {harness.name}"))  # fmt: skip
    return Threads(len(files), str(newest.path), not problems), problems


def _examined(
    harness: Harness, version: str, threads: Threads, problems: list[Problem]
) -> Examined:
    made, control = harnesses.integration(harness), harnesses.control(harness)
    parts: list[Part] = []
    hooks: list[Part] = []
    try:
        if made:
            ours = made.additions(own_command())
            parts = _standing(harness.name, ours, harness.name, problems)
        if control:
            ours = control.additions(str(path_in(data_folder() / "fleet")))
            hooks = _standing(f"{harness.name}/fleet", ours, f"{harness.name} --fleet", problems)
        if made and any(part.state == "there" for part in (*parts, *hooks)):
            problems += [Problem(*_halves(sentence)) for sentence in made.hindrances()]
    except TasukiError as error:
        problems.append(_unreadable(harness.name, str(error)))
    except OSError as error:  # A folder above the file may be closed as well.
        problems.append(
            _unreadable(harness.name, f"Cannot read {error.filename}: {reason_of(error)}.")
        )
    if _is_closed(data := data_folder()):  # Said once, for all of them.
        problems = [problem for problem in problems if str(data) not in problem.what]
    program = shutil.which(harness.program) if harness.program else None
    return Examined(
        name=harness.name,
        title=harness.title,
        program=program or "",
        version=version,
        tested=TESTED.get(harness.name, ""),
        threads=threads,
        can_start=bool(harness.can_start and program),
        can_prefill=harness.can_prefill,
        command=made.command if made else "",
        parts=tuple(parts),
        fleet=tuple(hooks),
        problems=tuple(problems),
    )


def _unreadable(harness: str, sentence: str) -> Problem:
    """What is wrong with a harness's own file, which the user alone can mend."""
    told = sentence.replace(" Nothing was written.", "")
    return Problem(told, f"mend that file, then: tasuki doctor {harness}")


def _standing(
    record: str, additions: tuple[Addition, ...], named: str, problems: list[Problem]
) -> list[Part]:
    """How additions stand; what is wrong with them is added to `problems`. Raises InstallFailed."""
    installer, mend = Installer(data_folder()), f"tasuki install {named}"
    parts = [_part(standing) for standing in installer.states(record, additions)]
    problems += [
        Problem(f"Still installed, though this tasuki cannot do it: {what}.", mend)
        for what in installer.left_over(record, additions)
    ]
    problems += _part_problems(mend, parts)
    return parts


def _part(standing: Standing) -> Part:
    addition = standing.addition
    return Part(addition.what, addition.path, standing.state, standing.programs)


def _halves(sentence: str) -> tuple[str, str]:
    """The first sentence, and what it says after that one can do."""
    what, _, mend = sentence.partition(". ")
    return f"{what}." if mend else sentence, mend


def is_in(parts: Sequence[Part]) -> bool:
    """Whether something of these is there, of whatever version."""
    return any(part.state in ("there", "replace") for part in parts)


def _part_problems(mend: str, parts: Sequence[Part]) -> Iterator[Problem]:
    """What is wrong with what is installed; nothing where nothing is."""
    if not is_in(parts):
        return
    programs = {program for part in parts for program in part.programs}
    if gone := sorted(p for p in programs if not os.access(p, os.X_OK)):
        yield Problem(f"What is installed runs {', '.join(gone)}, which is gone.", mend)
    elif any(part.state == "replace" for part in parts):
        yield Problem(_whose(programs), mend)
    if missing := [part.what for part in parts if part.state == "add"]:
        yield Problem(f"A part is missing: {'; '.join(missing)}.", mend)


def _whose(programs: set[str]) -> str:
    """What is to be said of something of ours that is not what would be installed now."""
    if others := sorted(programs - {own_command()[0]}):
        return f"What is installed runs another tasuki: {', '.join(others)}."
    return "What is installed is an older version's, or names other folders of tasuki."


# -- the fleet -------------------------------------------------------------------------


def _fleet(examined: Sequence[Examined]) -> FleetState | None:
    folder = data_folder() / "fleet"
    if not os.path.lexists(folder) and not any(is_in(harness.fleet) for harness in examined):
        return None
    try:
        written = path_in(folder).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        written = ""
    state = "current" if written == hook_script(folder) else "older" if written else "missing"
    waiting = sum(1 for e in scanned(folder / "spool") if e.name.endswith(".json"))
    return FleetState(shutil.which("curl") or "", state, waiting)


def _fleet_problems(
    fleet: FleetState, tmux: str, examined: Sequence[Examined]
) -> Iterator[Problem]:
    if hooked := [harness.name for harness in examined if is_in(harness.fleet)]:
        mend = f"tasuki install {' '.join(hooked)} --fleet"
        if fleet.script == "missing":
            yield Problem(
                "The script that the fleet's hooks run is gone: agents are not seen.", mend
            )
        elif fleet.script == "older":
            yield Problem("The script that the fleet's hooks run is another version's.", mend)
        if not fleet.curl:
            yield Problem(
                "There is no curl: what agents do is told late, and they get no skill at their start.",
                "Install curl, for example: apt install curl; or brew install curl",
            )
    if _before(tmux, TMUX_NEEDED):
        what = f"this is {tmux}" if tmux else "there is none"
        yield Problem(f"Agents of a fleet need tmux 3.2 or newer; {what}.",
                      "Install tmux, for example: apt install tmux; or brew install tmux")  # fmt: skip


def _before(version: str, needed: tuple[int, int]) -> bool:
    """Whether a version such as `3.3a` is older; one that nobody knows is not."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return not version or bool(found and (int(found[1]), int(found[2])) < needed)


def install_line(harness: Examined) -> str:
    """How its program is installed, empty where nobody knows."""
    package = PACKAGES.get(harness.name)
    return f"npm install -g {package}" if package else ""
