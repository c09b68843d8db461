"""Every adapter keeps every contract, and every contract catches an adapter that breaks it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import HARNESSES, LACKS, adapter, form, holder, samples
from msgspec.structs import replace

from tasuki.harness import registry
from tasuki.harness.integration import OwnFile
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Harness,
    LaunchPlan,
    LaunchRequest,
    ScreenState,
    ThreadFile,
)
from tasuki.model import Background, Entry, ReadReport, Thread, ThreadHead, ToolCall
from tasuki_testing import CONTRACTS, Trial, check_contract, check_harness, story


@pytest.mark.parametrize("name", HARNESSES)
def test_every_adapter_keeps_every_contract(name: str, tmp_path: Path) -> None:
    """The built-in harnesses read their captured threads as the contracts want it."""
    told, work = tmp_path / "told", tmp_path / "work"
    told.mkdir()
    check_harness(
        adapter(name), samples(name), work, story(name).write(told), form=form(name),
        lacks=LACKS.get(name),
    )  # fmt: skip


def test_the_first_broken_contract_is_named(tmp_path: Path) -> None:
    """The error says number, sentence and what was found instead."""
    broken = Sabotaged(registry.get_harness("pi"), read=_reading(lambda t: replace(t, cwd="")))

    with pytest.raises(AssertionError) as caught:
        check_harness(broken, samples("pi"), tmp_path)

    assert str(caught.value).startswith(
        "contract 2: A thread has its harness, id, path, folder, sources and both times."
    )


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize("number", CONTRACTS)
def test_every_contract_catches_a_sabotaged_adapter(number: int, name: str, tmp_path: Path) -> None:
    """An adapter that breaks one promise fails the contract of that promise."""
    if number in LACKS.get(name, {}):
        pytest.skip(LACKS[name][number])
    trial = _trial(name, tmp_path)
    if number == 24 and trial.harness.can_start and name not in ("pi", "omp"):
        pytest.skip("plans no session file")
    if number >= 30 and registry.get_control(trial.harness) is None:
        pytest.skip("no agents of it can be run")
    sabotage = SABOTAGES[number]
    if number in (22, 23, 24) and not trial.harness.can_start:
        sabotage = _starting
    trial.harness = sabotage(trial.harness)

    with pytest.raises(AssertionError, match=f"^contract {number}: "):
        check_contract(number, trial)


def _trial(name: str, folder: Path) -> Trial:
    told = folder / "story"
    told.mkdir()
    work = folder / "work"
    work.mkdir()
    return Trial(
        harness=adapter(name), samples=samples(name)[:3], story=story(name).write(told),
        folder=work, form=form(name),
    )  # fmt: skip


class Sabotaged:
    """A harness with some of its methods replaced; they get the real one first."""

    def __init__(self, real: Any, **methods: Callable[..., Any]) -> None:
        self._real = real
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        method = self._methods.get(name)
        return real if method is None else lambda *given: method(real, *given)


def _reading(change: Callable[[Thread], Thread]) -> Callable[..., Thread]:
    return lambda real, path: change(real(path))


def _entries(change: Callable[[Entry], Entry]) -> Callable[..., Thread]:
    return _reading(lambda t: replace(t, entries=tuple(change(e) for e in t.entries)))


def _calls(**fields: Any) -> Callable[..., Thread]:
    def change(entry: Entry) -> Entry:
        if entry.tool is None:
            return entry
        changed: ToolCall = replace(entry.tool, **fields)
        return replace(entry, tool=changed)

    return _entries(change)


def _report(**fields: Any) -> Callable[..., Thread]:
    return _reading(lambda t: replace(t, report=replace(t.report, **fields)))


def _shifted(thread: Thread) -> Thread:
    count = len(thread.entries)
    return replace(thread, entries=tuple(replace(e, ref=e.ref + count) for e in thread.entries))


def _mixed(thread: Thread) -> Thread:
    chain = Entry(ref=9_999, kind="assistant", text="SIDECHAIN-WORDS")
    return replace(thread, entries=(*thread.entries, chain))


def _never_ending(thread: Thread) -> Thread:
    agents = tuple(
        Background(id=b.id, kind=b.kind, label=b.label, state="running", ref=b.ref)
        for b in thread.background
    )
    return replace(thread, background=agents)


def _strict(real: Callable[[Path], Thread], path: Path) -> Thread:
    thread = real(path)
    if any("\\xff" in entry.text for entry in thread.entries):
        raise UnicodeError("invalid start byte")
    return thread


def _short_lines(real: Callable[[Path], Thread], path: Path) -> Thread:
    if any(len(line) > 500_000 for line in holder(path).read_bytes().splitlines()):
        raise ValueError("line too long")
    return real(path)


def _never_fails(real: Callable[[Path], Thread], path: Path) -> Thread:
    try:
        return real(path)
    except Exception:
        return Thread(harness="x", id="x", path=str(path), report=ReadReport())


def _touching(real: Callable[[Path], Thread], path: Path) -> Thread:
    thread = real(path)
    file = holder(path)
    file.write_bytes(file.read_bytes() + b"\n")
    return thread


def _other_id(real: Callable[[ThreadFile], ThreadHead | None], file: ThreadFile) -> Any:
    head = real(file)
    return head and ThreadHead(harness=head.harness, id="other", path=head.path)


def _sending(real: Callable[[LaunchRequest], LaunchPlan], request: LaunchRequest) -> LaunchPlan:
    return replace(real(request), submit=True)


def _starting(real: Harness) -> Any:
    return Sabotaged(real, plan=lambda _, request: LaunchPlan(argv=("x",), cwd=request.cwd))


def _deaf(real: Callable[[LaunchRequest], LaunchPlan], request: LaunchRequest) -> LaunchPlan:
    return real(replace(request, model="", send=False))


def _headless(real: Callable[[LaunchRequest], LaunchPlan], request: LaunchRequest) -> LaunchPlan:
    plan = real(request)
    files = tuple(replace(f, content=f.content.splitlines()[0] + "\n") for f in plan.files)
    return replace(plan, files=files)


def _appending(real: Harness) -> Any:
    def ask(_: object, request: AskRequest) -> AskPlan:
        argv = (real.program, "--resume", request.thread.id)
        return AskPlan(argv=argv, cwd=request.scratch, stdin=request.question)

    return Sabotaged(real, ask=ask)


def _agents(harness: Harness, **methods: Callable[..., Any]) -> Any:
    return Sabotaged(harness, get_control=lambda real: Sabotaged(real(), **methods))


class Unmarked:
    """An integration whose file nobody could tell from the user's own."""

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[OwnFile, ...]:
        return (OwnFile("/home/me/.x/handoff.md", "Hand off.", "the command"),)


SABOTAGES: dict[int, Callable[[Harness], Any]] = {
    1: lambda h: Sabotaged(h, is_thread_file=lambda real, path, first: True),
    2: lambda h: Sabotaged(h, read=_reading(lambda t: replace(t, cwd=""))),
    3: lambda h: Sabotaged(h, read=_entries(lambda e: replace(e, ref=1))),
    4: lambda h: Sabotaged(h, read=_reading(_shifted)),
    5: lambda h: Sabotaged(h, read=_entries(lambda e: replace(e, origin="typed"))),
    6: lambda h: Sabotaged(h, read=_entries(lambda e: replace(e, text=e.text.upper()))),
    7: lambda h: Sabotaged(h, read=_calls(status="ok", exit_code=0)),
    8: lambda h: Sabotaged(h, read=_calls(changes=())),
    9: lambda h: Sabotaged(h, read=_calls(todos=None)),
    10: lambda h: Sabotaged(h, read=_entries(lambda e: replace(e, compacted=False))),
    11: lambda h: Sabotaged(h, read=_reading(lambda t: replace(t, notices=()))),
    12: lambda h: Sabotaged(h, read=_reading(_never_ending)),
    13: lambda h: Sabotaged(h, read=_reading(_mixed)),
    14: lambda h: Sabotaged(h, read=_report(unknown={})),
    15: lambda h: Sabotaged(h, read=_report(broken=())),
    16: lambda h: Sabotaged(h, read=_report(truncated_tail=False)),
    17: lambda h: Sabotaged(h, read=_strict),
    18: lambda h: Sabotaged(h, read=_short_lines),
    19: lambda h: Sabotaged(h, read=_never_fails),
    20: lambda h: Sabotaged(h, read=_touching),
    21: lambda h: Sabotaged(h, read_head=_other_id),
    22: lambda h: Sabotaged(h, plan=_sending),
    23: lambda h: Sabotaged(h, plan=_deaf),
    24: lambda h: Sabotaged(h, plan=_headless),
    25: lambda h: Sabotaged(h, build_resume_command=lambda real, thread: (h.program or "x",)),
    26: lambda h: Sabotaged(h, list_skill_folders=lambda real, cwd: None),
    27: _appending,
    28: lambda h: Sabotaged(h, parse_answer=lambda real, output, request: AskAnswer(text="Well.")),
    29: lambda h: Sabotaged(h, get_integration=lambda real: Unmarked()),
    30: lambda h: _agents(
        h, parse_event=lambda real, payload: real({**payload, "x": payload["cwd"]})
    ),
    31: lambda h: _agents(h, list_additions=lambda real, hook: Unmarked().list_additions(())),
    32: lambda h: _agents(h, plan_start=lambda real, request: replace(real(request), cwd="/")),
    33: lambda h: _agents(h, read_screen=lambda real, look: ScreenState("ready")),
    34: lambda h: _agents(h, format_reply=lambda real, event, reply: "{}"),
}
