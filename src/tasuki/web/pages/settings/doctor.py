"""What `tasuki doctor` finds, as a page: programs, logins, hooks, and the line that mends each."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from tasuki.doctor import (
    DiagnosedProblem,
    DoctorReport,
    HarnessReport,
    build_install_line,
    inspect_harnesses,
)
from tasuki.fleet.exchange.host_list import find_login
from tasuki.fleet.service import Fleet
from tasuki.web.handlers import AnyRequest, TheFleet, show_page
from tasuki.web.pages.settings.frame import render_section
from tasuki.web.pages.settings.hooks import list_hooks
from tasuki.web.views.templates import PageResponse


class DoctorRow(Struct, frozen=True):
    """One thing that was examined. `tone`: done, attn, rest."""

    what: str
    said: str
    tone: str = "done"
    mend: str = ""
    """The line that mends it, or a sentence; empty where nothing is to be done."""
    href: str = ""
    """A form that mends it, over the page."""


class DoctorGroup(Struct, frozen=True):
    """What was found about one thing, such as a harness."""

    title: str
    rows: tuple[DoctorRow, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing of it is to be mended."""
        return all(row.tone != "attn" for row in self.rows)


@show_page("/doctor")
def show_doctor(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show what works with each harness on this host, what does not, and how to mend it."""
    report = inspect_harnesses()
    hooks = {one.name: one.state for one in list_hooks(fleet)}
    shown = [one for one in report.harnesses if one.is_present]
    groups = [
        _build_fleet_group(fleet, report),
        *(DoctorGroup(one.title, tuple(_list_rows(one, hooks))) for one in shown),
    ]
    absent = [(one.title, build_install_line(one)) for one in report.harnesses if one not in shown]
    return render_section(request, "doctor", groups=groups, absent=absent)


def _build_fleet_group(fleet: Fleet, report: DoctorReport) -> DoctorGroup:
    curl = report.fleet.curl if report.fleet else ""
    health = " ".join(fleet.list_faults()) or "ok"
    rows = [
        DoctorRow("Server", f"tasuki {report.tasuki}, {health}", "done" if health == "ok" else "attn"),
        DoctorRow("tmux", report.tmux or "not found", "done" if report.tmux else "attn", "" if report.tmux else "Install tmux, for example: apt install tmux; or brew install tmux"),
    ]  # fmt: skip
    if report.fleet:
        rows.append(DoctorRow("curl", curl or "not found", "done" if curl else "attn"))
        script = report.fleet.script
        rows.append(DoctorRow("Script of the hooks", script, "done" if script == "current" else "rest"))  # fmt: skip
    return DoctorGroup("This host", (*rows, *_list_problems(report.problems)))


def _list_rows(harness: HarnessReport, hooks: dict[str, str]) -> Iterator[DoctorRow]:
    if harness.program:
        tested = f"; tested with {harness.tested}" if harness.tested else ""
        yield DoctorRow("Program", f"{harness.version or '?'} at {harness.program}{tested}")
    else:
        yield DoctorRow("Program", "not found", "rest", build_install_line(harness))
    login = find_login(harness.name)
    if login != "unknown" and harness.program:
        found = login == "yes"
        yield DoctorRow("Login", "found" if found else "no trace of one", "done" if found else "rest", "" if found else f"Start {harness.name} once and log in.")  # fmt: skip
    if state := hooks.get(harness.name):
        is_there = state == "in place"
        tone = "done" if is_there else "attn" if harness.program else "rest"
        yield DoctorRow("Hooks of the fleet", state, tone, "" if is_there else f"tasuki install {harness.name} --fleet", "" if is_there else f"/settings/hooks/{harness.name}")  # fmt: skip
    yield DoctorRow("Threads", f"{harness.threads.count:,}", "done" if harness.threads.readable else "attn")  # fmt: skip
    yield from _list_problems(harness.problems)
    yield from (DoctorRow("Note", note, "rest") for note in harness.notes)


def _list_problems(problems: Sequence[DiagnosedProblem]) -> Iterator[DoctorRow]:
    for problem in problems:
        yield DoctorRow("Problem", problem.what, "attn", problem.mend)


HANDLERS = (show_doctor,)
