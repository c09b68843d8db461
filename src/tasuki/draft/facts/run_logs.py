"""What later looks at a log show of a run: of one in the background, or one that printed into a file."""

from collections.abc import Mapping, Sequence

from tasuki.draft.facts.commands import CommandRun
from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.runs.ended_line import is_harmless, list_steps
from tasuki.draft.runs.programs import unquote
from tasuki.model import Thread, ToolCall
from tasuki.patterns import compile_pattern

_LOOKS = compile_pattern(r"(?:cat|tail|head|less|e?grep|rg|sed|awk|wc)\s")
_ENDED = compile_pattern(r"<task-id>([^<]+)</task-id>(?=[\s\S]*<status>)")


def join_looks(all_runs: Sequence[CommandRun], thread: Thread) -> None:
    """Judge each run whose end is not shown by the newest look at its log, as if that read what it printed.

    A look counts only behind the end of what ran in the background.
    """
    by_ref = {run.ref: run for run in all_runs if run.check}
    logs = {b.ref: b.places for b in thread.background if b.kind == "command"}
    jobs = {b.ref: b.id for b in thread.background}
    ended = {
        m[1].strip(): n.after for n in reversed(thread.notices) if (m := _ENDED.search(n.text))
    }
    writers: dict[str, CommandRun] = {}
    looks: dict[int, ToolCall] = {}
    for entry in thread.entries if by_ref else ():
        call, run = entry.tool, by_ref.get(entry.ref)
        if call and writers and (found := _read_look(call, writers)):
            seen, line = found
            if seen.ref not in jobs or ended.get(jobs[seen.ref], entry.ref) < entry.ref:
                looks[seen.ref] = seen.build_look(line, call)
        if run:
            parts = list_simple_commands(run.command)
            written = [p.output_to for p in parts if p.output_to and not p.in_background]
            writers |= dict.fromkeys([*logs.get(entry.ref, ()), *written], run)
    for ref, look in looks.items():
        if by_ref[ref].result == "not shown":
            by_ref[ref].retake(look)


def _read_look(call: ToolCall, writers: Mapping[str, CommandRun]) -> tuple[CommandRun, str] | None:
    """Read a look at what a run wrote: the run, and the line that would have shown the same of it."""
    if call.kind == "read" and call.status == "ok":
        path = next((path for path in call.paths if path in writers), "")
        steps = list_steps(f"cat '{path}'")
    elif call.kind == "shell" and any(path in call.command for path in writers):
        steps = [step for step in list_steps(call.command) if not is_harmless(step)]
        words = [unquote(word) for word in steps[0].command.text.split()] if len(steps) == 1 else []
        path = next((word for word in words[1:] if word in writers), "")
    else:
        return None
    if not path or not _LOOKS.match(text := steps[0].command.text):
        return None
    run, shown = writers[path], [text, *(one.text for one in steps[0].filters)]
    if any(part.output_to == path for part in list_simple_commands(run.command)):
        return run, f"{run.command}; {' | '.join(shown)}"
    shown[0] = text.replace(path, "").strip("' ")
    return run, " | ".join([run.command, *(one for one in shown if one != "cat")])
