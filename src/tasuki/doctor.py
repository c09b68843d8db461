"""What works with each harness on this machine, and the one line that fixes what does not.

Nothing is started but the programs' own `--version`, in parallel and with a time limit.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki import __version__
from tasuki.compaction.memory import CompactionReport, read_report
from tasuki.config import settings
from tasuki.config.settings import list_unknown_variables
from tasuki.errors import TasukiError
from tasuki.files import explain_error, get_data_folder
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import Addition
from tasuki.harness.optional import get_facts
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.jsonl import UNDECODABLE, collect_unreadable, scan_folder
from tasuki.install.files import read_content
from tasuki.install.hook_script import build_hook_script, get_script_path
from tasuki.install.installer import RECORD, InstalledPart, Installer, find_own_command
from tasuki.launch.tmux.server import Tmux
from tasuki.patterns import compile_pattern
from tasuki.threads.catalog import list_heads, read_ends, read_whole_thread
from tasuki.threads.kept.policy import (
    KeptSummary,
    describe_clean_up,
    list_failures,
    summarize_copies,
)

TMUX_NEEDED = (3, 2)
VERSION_SECONDS = 4.0
"""Time limit of a program that is asked for its version: a large one takes seconds at its first start."""
WHOLE_BYTES = 40 << 20
"""A newest thread up to this size is read to its end, of a larger one only the head."""
_VERSION = compile_pattern(r"\d+\.\d+(?:\.\d+)?[-.\w]*")


class DiagnosedProblem(Struct, frozen=True):
    """Something that does not work, and the one line that fixes it."""

    what: str
    mend: str


class ThreadSummary(Struct, frozen=True):
    """The threads of a harness; `newest` is the path of the newest one."""

    count: int = 0
    newest: str = ""
    readable: bool = True


class FleetReadiness(Struct, frozen=True):
    """What agents in tmux need.

    It is curl by its path, and the script of their hooks (current, older, missing). `waiting`
    counts the events that were kept for the server while it did not run.
    """

    curl: str
    script: str
    waiting: int


class HarnessReport(Struct, frozen=True):
    """What was found out about one harness."""

    name: str
    title: str
    program: str
    """Path of its program, empty where it is not on the PATH."""
    version: str
    tested: str
    threads: ThreadSummary
    can_start: bool
    """A successor can be started in it here."""
    can_prefill: bool
    command: str
    """How a handoff begins inside it, empty where nothing can be installed."""
    parts: tuple[InstalledPart, ...]
    fleet: tuple[InstalledPart, ...]
    """The hooks of a fleet, which `tasuki install --fleet` adds.

    They are empty where there can be no agents.
    """
    problems: tuple[DiagnosedProblem, ...]
    notes: tuple[str, ...] = ()
    """What is no defect, but good to know."""
    keeping: tuple[InstalledPart, ...] = ()
    """What `tasuki install --keep` adds, for compactions; empty where nothing can be."""
    compaction: CompactionReport | None = None
    """What became of the last compaction that tasuki took part in."""

    @property
    def is_installed(self) -> bool:
        """Whether a part of tasuki is installed."""
        return bool(list_present(self.parts))

    @property
    def is_present(self) -> bool:
        """Whether there is anything to report about it."""
        installed = self.is_installed or list_present(self.fleet)
        return bool(self.program or self.threads.count or installed or self.problems)


class DoctorReport(Struct, frozen=True):
    """What was found out: about tasuki itself, and about each harness."""

    tasuki: str
    command: str
    data: str
    tmux: str
    extras: dict[str, bool]
    fleet: FleetReadiness | None
    """None where no fleet is in use: no part of it was ever installed or started."""
    harnesses: tuple[HarnessReport, ...]
    problems: tuple[DiagnosedProblem, ...]
    kept: KeptSummary | None = None
    """The copies of threads; None where the settings cannot be read."""

    @property
    def is_broken(self) -> bool:
        """Whether something does not work that should."""
        return bool(self.problems) or any(harness.problems for harness in self.harnesses)


def inspect_harnesses(names: Sequence[str] = ()) -> DoctorReport:
    """Examine every harness, or the named ones. Raises UsageError for an unknown name."""
    chosen = [harnesses.get_harness(name) for name in names or harnesses.list_names()]
    own_settings = None
    with suppress(TasukiError):  # What is wrong with them is reported.
        own_settings = settings.load_settings(Path.cwd())
    with ThreadPoolExecutor(max_workers=16) as pool:
        tmux = pool.submit(_read_version, "tmux", "-V")
        versions = [pool.submit(find_version, harness) for harness in chosen]
        thread_results = list(pool.map(_summarize_threads, chosen))
        examined = tuple(
            _inspect_harness(harness, version.result(), *threads, own_settings)
            for harness, version, threads in zip(chosen, versions, thread_results, strict=True)
        )
    extras = {name: find_spec(module) is not None for name, module in _EXTRAS.items()}
    fleet = _inspect_fleet(examined)
    kept = summarize_copies(own_settings) if own_settings else None
    return DoctorReport(
        tasuki=__version__,
        command=shlex.join(find_own_command()),
        data=str(get_data_folder()),
        tmux=tmux.result(),
        extras=extras,
        fleet=fleet,
        harnesses=examined,
        problems=(
            *_find_own_problems(get_data_folder()),
            *_find_settings_problems(),
            *(_find_fleet_problems(fleet, tmux.result(), examined, own_settings) if fleet else ()),
            *(DiagnosedProblem(*failure) for failure in list_failures(kept)),
        ),
        kept=kept,
    )


_EXTRAS = {"review": "textual", "mcp": "mcp", "model": "pydantic_ai", "acp": "acp", "notify": "apprise", "server": "litestar"}  # fmt: skip


def _find_settings_problems() -> Iterator[DiagnosedProblem]:
    try:
        problems = settings.load_with_sources(Path.cwd()).problems
    except TasukiError as error:
        problems = (str(error),)
    yield from (DiagnosedProblem(problem, "tasuki config") for problem in problems)
    for variable, sentence in list_unknown_variables():
        yield DiagnosedProblem(sentence, f"unset {variable}")


def _find_own_problems(data: Path) -> Iterator[DiagnosedProblem]:
    folder = _find_existing(data)
    if _is_closed(data):
        yield DiagnosedProblem(f"tasuki cannot read {folder}, where it stores handoffs and what it installed.",
                      "give yourself permission, or: export TASUKI_DATA=/some/folder")  # fmt: skip
        return
    record = data / RECORD
    try:
        if (content := read_content(str(record))) is not None:
            msgspec.json.decode(content)
    except (TasukiError, *UNDECODABLE) as error:
        yield DiagnosedProblem(f"The record of what tasuki installed cannot be read: {record}: {error}.",
                      "tasuki install (keeps a copy of the damaged one)")  # fmt: skip
    if not os.access(folder, os.W_OK):
        yield DiagnosedProblem(f"tasuki cannot write to {data}, where it stores handoffs.",
                      "export TASUKI_DATA=/some/folder")  # fmt: skip


def _is_closed(folder: Path) -> bool:
    """Tell whether an existing folder, or the nearest one above it, cannot be read."""
    return not os.access(_find_existing(folder), os.R_OK | os.X_OK)


def _find_existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))


def find_version(harness: Harness) -> str:
    """Find the version of its program: from its npm package, else by asking the program."""
    program = shutil.which(harness.program) if harness.program else None
    if not program:
        return ""
    package = get_facts(harness).package
    for folder in Path(os.path.realpath(program)).parents[:5] if package else ():
        try:
            package_info = msgspec.json.decode(
                (folder / "package.json").read_bytes(), type=_NpmPackage
            )
        except (OSError, *UNDECODABLE):
            continue
        if package_info.name == package:
            return package_info.version
    return _read_version(program, "--version")


class _NpmPackage(Struct):
    name: str = ""
    version: str = ""


def _read_version(program: str, flag: str) -> str:
    """Read the version that a program reports; `?` without one, empty without the program."""
    path = shutil.which(program)
    if not path:
        return ""
    try:
        done = subprocess.run(
            [path, flag], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=VERSION_SECONDS, check=False,
        )  # fmt: skip
        printed = (done.stdout, done.stderr)
    except OSError:
        return "?"
    except subprocess.TimeoutExpired as error:  # It may have told before it hung.
        printed = (error.stdout or b"", error.stderr or b"")
    found = (_VERSION.search(text.decode("utf-8", "replace")) for text in printed)
    return next((match[0] for match in found if match), "?")


# -- one harness -----------------------------------------------------------------------


def _summarize_threads(harness: Harness) -> tuple[ThreadSummary, list[DiagnosedProblem]]:
    """Count the threads, and tell whether the newest with a conversation can be read."""
    with collect_unreadable() as unreadable:
        files = sorted(harness.list_files(), key=lambda file: file.modified, reverse=True)
        newest = next((f for f in files[:20] if read_ends(harness, f) is not None), None)
    with collect_unreadable():  # Of an older one nothing is said here.
        count = sum(1 for _ in list_heads(harness.name)) or (len(files) if unreadable else 0)
    mend = (
        f"check who may read it: ls -ld {shlex.quote(unreadable[0].split(' cannot be ')[0])}"
        if unreadable and "defect" not in unreadable[0]
        else ""
    )
    problems = [DiagnosedProblem(sentence, mend) for sentence in unreadable[:1]]
    if not files:
        return ThreadSummary(), problems
    newest = newest or files[0]
    try:
        if newest.bytes <= WHOLE_BYTES:
            read_whole_thread(harness, newest.path)
    except TasukiError as error:
        problems.append(DiagnosedProblem(f"The newest thread cannot be read: {error}",
                                f"tasuki threads --harness {harness.name}"))  # fmt: skip
    return ThreadSummary(count, str(newest.path), not problems), problems


def _inspect_harness(
    harness: Harness,
    version: str,
    threads: ThreadSummary,
    problems: list[DiagnosedProblem],
    own_settings: settings.Settings | None,
) -> HarnessReport:
    integration, control = harnesses.get_integration(harness), harnesses.get_control(harness)
    parts, hooks, keeping = list[InstalledPart](), list[InstalledPart](), list[InstalledPart]()
    name = harness.name
    try:
        if integration:
            additions = integration.list_additions(find_own_command())
            parts = _list_parts(name, additions, name, problems)
            additions = integration.list_compaction_additions(find_own_command())
            keeping = _list_parts(f"{name}/keep", additions, f"{name} --keep", problems)
        if control:
            additions = control.list_additions(str(get_script_path(get_data_folder() / "fleet")))
            hooks = _list_parts(f"{name}/fleet", additions, f"{name} --fleet", problems)
        if integration and any(part.state == "there" for part in (*parts, *hooks, *keeping)):
            for sentence in integration.find_blockers():
                what, _, mend = sentence.partition(". ")
                problems.append(DiagnosedProblem(f"{what}." if mend else sentence, mend))
    except (TasukiError, OSError) as error:
        what = str(error)
        if isinstance(error, OSError):  # A folder above the file may be unreadable as well.
            what = f"Cannot read {error.filename}: {explain_error(error)}."
        what = what.replace(" Nothing was written.", "")
        problems.append(DiagnosedProblem(what, f"fix that file, then: tasuki doctor {name}"))
    if _is_closed(data := get_data_folder()):  # Said once, for all of them.
        problems = [problem for problem in problems if str(data) not in problem.what]
    compaction = read_report(harness.name)
    if compaction and compaction.problem:
        problems.append(
            DiagnosedProblem(
                f"The last compaction was left to {harness.title} alone: {compaction.problem}",
                "fix that; the next compaction shows whether it works",
            )
        )
    program = shutil.which(harness.program) if harness.program else None
    notes = list(integration.describe_own_command() if integration else ())
    if threads.count and own_settings:
        with suppress(TasukiError, OSError):  # Its settings cannot be read, which was said above.
            if clean_up := describe_clean_up(harness, own_settings):
                notes.insert(0, clean_up)
    return HarnessReport(
        name=harness.name,
        title=harness.title,
        program=program or "",
        version=version,
        tested=get_facts(harness).tested,
        threads=threads,
        can_start=bool(harness.can_start and program),
        can_prefill=harness.can_prefill,
        command=integration.command if integration else "",
        parts=tuple(parts),
        fleet=tuple(hooks),
        problems=tuple(problems),
        notes=tuple(notes),
        keeping=tuple(keeping),
        compaction=compaction,
    )


def _list_parts(
    record: str, additions: tuple[Addition, ...], arguments: str, problems: list[DiagnosedProblem]
) -> list[InstalledPart]:
    """List additions with their states; `problems` gets what is wrong. Raises InstallFailed."""
    installer, mend = Installer(get_data_folder()), f"tasuki install {arguments}"
    parts = list(installer.list_parts(record, additions))
    problems += [
        DiagnosedProblem(f"Still installed, though this tasuki does not support it: {what}.", mend)
        for what in installer.find_leftovers(record, additions)
    ]
    problems += _find_part_problems(mend, parts)
    return parts


def list_present(parts: Sequence[InstalledPart]) -> list[InstalledPart]:
    """List the parts that are installed, of whatever version."""
    return [part for part in parts if part.state in ("there", "replace")]


def _find_part_problems(mend: str, parts: Sequence[InstalledPart]) -> Iterator[DiagnosedProblem]:
    """Find what is wrong with installed parts; nothing where none is installed."""
    if not list_present(parts):
        return
    programs = {program for part in parts for program in part.programs}
    if missing_programs := sorted(p for p in programs if not os.access(p, os.X_OK)):
        yield DiagnosedProblem(
            f"What is installed runs {', '.join(missing_programs)}, which no longer exists.", mend
        )
    elif any(part.state == "replace" for part in parts):
        what = "The installed parts are from an older version, or name other folders of tasuki."
        if others := sorted(programs - {find_own_command()[0]}):
            what = f"What is installed runs another tasuki: {', '.join(others)}."
        yield DiagnosedProblem(what, mend)
    if missing := [part.what for part in parts if part.state == "add"]:
        yield DiagnosedProblem(f"A part is missing: {'; '.join(missing)}.", mend)


# -- the fleet -------------------------------------------------------------------------


def _inspect_fleet(examined: Sequence[HarnessReport]) -> FleetReadiness | None:
    folder = get_data_folder() / "fleet"
    if not os.path.lexists(folder) and not any(list_present(harness.fleet) for harness in examined):
        return None
    try:
        written = get_script_path(folder).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        written = ""
    state = "current" if written == build_hook_script(folder) else "older" if written else "missing"
    waiting = sum(1 for e in scan_folder(folder / "spool") if e.name.endswith(".json"))
    return FleetReadiness(shutil.which("curl") or "", state, waiting)


def _find_fleet_problems(
    fleet: FleetReadiness,
    tmux: str,
    examined: Sequence[HarnessReport],
    own_settings: settings.Settings | None,
) -> Iterator[DiagnosedProblem]:
    if hooked := [harness.name for harness in examined if list_present(harness.fleet)]:
        mend = f"tasuki install {' '.join(hooked)} --fleet"
        sentences = {
            "missing": "The script that the fleet's hooks run is missing: agents are not reported.",
            "older": "The script that the fleet's hooks run is from another version.",
        }
        if fleet.script in sentences:
            yield DiagnosedProblem(sentences[fleet.script], mend)
        if not fleet.curl:
            yield DiagnosedProblem(
                "curl is missing: what agents do is reported late, and they get no skill when they start.",
                "Install curl, for example: apt install curl; or brew install curl",
            )
    found = re.match(r"(\d+)\.(\d+)", tmux)  # of a version such as `3.3a`
    if not tmux or (found and (int(found[1]), int(found[2])) < TMUX_NEEDED):
        what = f"this is {tmux}" if tmux else "there is none"
        yield DiagnosedProblem(f"Agents of a fleet need tmux 3.2 or newer; {what}.",
                      "Install tmux, for example: apt install tmux; or brew install tmux")  # fmt: skip
    obstacle, mend = Tmux(own_settings.fleet_tmux if own_settings else "").find_obstacle()
    if obstacle:
        yield DiagnosedProblem(obstacle, mend)


def build_install_line(harness: HarnessReport) -> str:
    """Return how its program is installed, empty where that is unknown."""
    package = harnesses.find_facts(harness.name).package
    return f"npm install -g {package}" if package else ""
