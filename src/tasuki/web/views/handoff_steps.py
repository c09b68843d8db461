"""The steps of a handoff as its page shows them, with their lines of the log and what a check found."""

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.fleet.handoff import documents, workflow
from tasuki.fleet.store import log
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetEvent, FleetHandoff, StepRun
from tasuki.web.views import display
from tasuki.web.views.templates import begin_sentence

_SKIPPED = ("skipped", "drop", "rest")
_SHAPES = {"ok": ("ok", "done", "done"), "failed": ("bad", "fail", "fail"), "skipped": _SKIPPED}
"""The kind, the icon and the tone of a step by its outcome."""
MOST_LINES = 400
"""Lines of one handoff that are read."""
MOST_SHOWN = 40
"""Lines of one step that are shown: the newest."""
ADDED_ANCHOR = "document-added"
"""The place in a document at which facts were added."""


class CheckFinding(Struct, frozen=True):
    """What the check of a document found; `place` is where that is, an id on the page."""

    text: str
    fine: bool
    place: str = ""


class StepLog(Struct, frozen=True):
    """What is inside a step."""

    lines: tuple[FleetEvent, ...] = ()
    left_out: int = 0
    """Older lines that are not shown."""

    @property
    def failed_line(self) -> int:
        """The id of the newest line that says how it failed; 0 for none."""
        return next((line.id for line in reversed(self.lines) if line.kind == "alarm"), 0)


class StepRow(Struct, frozen=True):
    """A step: to come, under way, or over. `left` and `width` are percent of the whole."""

    step: str
    name: str
    why: str
    kind: str
    """ok, bad, now, skipped or todo."""
    icon: str
    tone: str
    started_at: float | None = None
    seconds: float | None = None
    left: float = 0.0
    width: float = 0.0
    attempt: int = 1
    host: str = ""
    """The host that carries it out, where the handoff goes to another one."""
    log: StepLog = StepLog()
    findings: tuple[CheckFinding, ...] = ()
    checks: tuple[str, ...] = ()
    """What is being checked."""

    @property
    def doubts(self) -> int:
        """How many findings are not fine."""
        return sum(not finding.fine for finding in self.findings)


def build_rows(handoff: FleetHandoff, runs: Sequence[StepRun]) -> tuple[StepRow, ...]:
    """Build a row for each step of a handoff, in order; `runs` are those that began."""
    newest = {run.step: run for run in runs}
    order = workflow.find_shape(handoff).list_steps()
    seconds = {
        name: max(0.0, (newest[name].ended_at or time.time()) - newest[name].started_at)
        for name in order
        if name in newest
    }
    total, left = max(sum(seconds.values()), 0.1), 0.0
    rows = []
    for name in order:
        run = newest.get(name)
        is_old = run is not None and run.attempt < handoff.attempt and run.outcome != "ok"
        if run is None or is_old:
            rows.append(StepRow(name, *display.STEP_WORDS[name], "todo", "todo", "rest"))
            continue
        width = 100 * seconds[name] / total
        attempt = sum(one.step == name for one in runs)
        rows.append(_build_row(handoff, run, left, width, seconds[name], attempt))
        left += width
    return tuple(rows)


def _build_row(
    handoff: FleetHandoff, run: StepRun, left: float, width: float, seconds: float, attempt: int
) -> StepRow:
    name, waits_for = display.STEP_WORDS[run.step]
    is_now = not run.outcome and handoff.state == "running"
    shape = _SHAPES.get(run.outcome, ("now", "now", "run") if is_now else _SKIPPED)
    return StepRow(
        run.step, name, run.note or (waits_for if is_now else ""), *shape, run.started_at, seconds,
        round(min(left, 98.5), 1), round(max(width, 1.5), 1), attempt,
    )  # fmt: skip


def fill_row(
    row: StepRow, logs: Mapping[str, StepLog], findings: tuple[CheckFinding, ...]
) -> StepRow:
    """Fill in what is inside a step."""
    is_check = row.step == "check"
    return replace(
        row,
        log=logs.get(row.step, StepLog()) if row.kind != "todo" else StepLog(),
        findings=findings if is_check and row.kind in ("ok", "bad") else (),
        checks=documents.CHECKS if is_check and row.kind == "now" else (),
    )


# -- what is inside them ---------------------------------------------------------------


def read_step_logs(
    database: FleetDatabase, handoff: FleetHandoff, runs: Sequence[StepRun]
) -> Mapping[str, StepLog]:
    """Read the lines of each step of a handoff, by the step."""
    with database.read() as connection:
        events = log.list_handoff_lines(connection, handoff.id, MOST_LINES)
    found: dict[str, list[FleetEvent]] = {run.step: [] for run in runs}
    for event in events:
        step = event.data.get("step") or _find_step(event, runs)
        if step in found:
            found[step].append(replace(event, text=_shorten_text(event.text, handoff, step)))
    return {
        step: StepLog(tuple(lines[-MOST_SHOWN:]), max(0, len(lines) - MOST_SHOWN))
        for step, lines in found.items()
    }


def _find_step(event: FleetEvent, runs: Sequence[StepRun]) -> str:
    """Find the step that was under way when something happened; empty before the first one."""
    begun = [run for run in runs if run.started_at <= event.at]
    return max(begun, key=lambda run: run.started_at).step if begun else ""


def _shorten_text(text: str, handoff: FleetHandoff, step: str) -> str:
    """Leave out what the place of a line says already: the handoff, and the step."""
    rest = text.removeprefix(f"Handoff {handoff.id[:8]}").lstrip(": ")
    rest = rest.removeprefix(f"{step} ").removeprefix("is ") if rest.startswith(step) else rest
    return begin_sentence(rest)


def list_findings(handoff: FleetHandoff, *, has_addition: bool) -> tuple[CheckFinding, ...]:
    """List what the check of the document found, as far as it was written down.

    `has_addition`: the document has a part that was added.
    """
    place = f"h-{handoff.id[:8]}-document"
    findings = []
    for note in dict.fromkeys(handoff.notes):
        if note.startswith((documents.LACKING, documents.UNFOUND)):
            findings.append(CheckFinding(note, fine=False, place=place))
        elif note.startswith(documents.COMPLETED):
            findings.append(
                CheckFinding(note, fine=True, place=ADDED_ANCHOR if has_addition else place)
            )
        elif note.startswith(documents.QUALITY):
            is_fine = (documents.read_quality(handoff) or 0) >= documents.POOR_QUALITY
            findings.append(CheckFinding(note, fine=is_fine))
    return tuple(findings)
