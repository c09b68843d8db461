"""Lines about checks: how the last tests, lint and build ended, and what changed since."""

from collections.abc import Iterator

from tasuki.draft.facts.commands import LEADING_CD, shorten_check, shorten_command
from tasuki.draft.facts.files import is_noise
from tasuki.draft.repository.checkouts import find_root
from tasuki.draft.repository.lines import had_agents, name_paths, shorten_paths
from tasuki.draft.runs.command_kinds import runs_project_script
from tasuki.draft.runs.outcomes import INTERRUPTED
from tasuki.draft.runs.runners import JUDGED
from tasuki.draft.runs.scopes import join_folder, list_scopes, locate
from tasuki.draft.runs.summaries import find_marked_line
from tasuki.model import CommandFact, Facts, Item, RunResult, Thread
from tasuki.paths import is_outside

_CHECK_LABELS = {"test": "Tests", "lint": "Lint or type check", "build": "Build"}


def list_checks(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield the last run of each kind of check; kinds that one command ran share a line."""
    by_run: dict[tuple[int, RunResult, str], list[CommandFact]] = {}

    def is_built(build: CommandFact) -> bool:
        """Return whether tests passed after a build, which they cannot without it, or by a task that may hold it."""
        words = LEADING_CD.sub("", shorten_check(build.command, ("build",))).split(None, 1)
        step = words[0] if words else ""
        return any(
            test.check == "test"
            and test.ok
            and test.refs[-1] >= build.refs[-1]
            and (
                build.ok
                or (
                    (step in test.command.split() or runs_project_script(test.command))
                    and test.folder == build.folder
                )
            )
            for test in facts.last_check
        )

    for check in facts.last_check:
        if check.check == "build" and is_built(check):
            continue  # What was tested later was built.
        by_run.setdefault((check.refs[-1], check.result, check.outcome), []).append(check)
    for checks in by_run.values():
        check = checks[0]
        kinds = [c.check for c in checks]
        label = " and ".join(map(_CHECK_LABELS.__getitem__, kinds))
        text = _format_check(thread, facts, check, f"`{shorten_check(check.command, kinds)}`")
        if check.unseen:
            newer = next(c for c in facts.commands if check.unseen in c.refs)
            last = f"`{shorten_check(newer.command, kinds)}` was run last"
            text = f"{last}; {_describe_unknown_end(newer)}. Earlier, {text}"
        refs = (check.refs[-1], check.unseen) if check.unseen else check.refs[-1:]
        yield Item(text=text, refs=refs, label=label)
    if whole := find_whole_run(facts):
        text = _format_check(thread, facts, whole, f"`{shorten_check(whole.command, ('test',))}`")
        yield Item(text=text, refs=whole.refs[-1:], label="Last run of the whole suite")
    tests = [c for c in facts.commands if c.suite]
    known = [c.refs[-1] for c in tests if c.known]
    if known and all(c.suite == "selection" for c in tests) and not had_agents(thread):
        text = "only selected tests were run in this thread, never the whole suite"
        yield Item(text=text, refs=(known[0],), label="Not verified")


def _format_check(thread: Thread, facts: Facts, check: CommandFact, shown: str) -> str:
    """Return how a check ended, and what is known to have changed since."""
    places = [f"in {check.folder}"] if check.folder else []
    if branch := _find_other_branch(thread, facts, check):
        places.append(f"on `{branch}`")
    places += ["without the stashed changes"] if check.without_stashed else []
    where = f" ({', '.join(places)})" if places else ""
    since = _describe_changes_since(thread, facts, check)
    return f"{shown}{where} {_format_result(check)}{f'; {since}' if since else ''}"


def _find_other_branch(thread: Thread, facts: Facts, check: CommandFact) -> str:
    """Return the branch on which a check was run, if another one is in use there now; '' where nobody knows."""
    cwd, ref = join_folder("", thread.cwd) or "", check.refs[-1]
    checkouts = {c.root: c for c in facts.repository.checkouts}
    folders = {one.folder for one in list_scopes(check.command, locate(cwd, check.folder or "."))}
    roots = {find_root(folder, checkouts) if folder else "" for folder in folders}
    branches = checkouts[root].branches if len(roots) == 1 and (root := roots.pop()) else ()
    before = [name for at, name, _ in branches if at < ref]
    after = [(name, begins_here) for at, name, begins_here in branches if at > ref]
    is_noted_late = len(before) == 1 and branches[0][0] == 0 and before[0] in dict(after)
    if not (before and after) or is_noted_late or any(at == ref for at, _, _ in branches):
        return ""
    same, now = {before[-1]}, before[-1]
    for name, begins_here in after:
        if begins_here and now in same:
            same.add(name)
        now = name
    return "" if now in same else before[-1]


def find_whole_run(facts: Facts) -> CommandFact | None:
    """Find the last run of the whole suite, if surely only a part was run after it."""
    last = next((c for c in facts.last_check if c.check == "test"), None)
    suites = [c for c in facts.commands if c.suite in ("whole", "unknown")]
    newest = next(iter(suites), None)
    if last is None or newest is None or newest.refs[-1] >= last.refs[-1]:
        return None
    is_told = newest.suite == "whole" and newest.known and newest.folder == last.folder
    return newest if is_told else None


def _describe_changes_since(thread: Thread, facts: Facts, check: CommandFact) -> str:
    """Return what changed after a check: files that a tool edited, a command that may have changed some, sub-agents.

    Empty where nobody knows, and where nothing did after a run of unknown end.
    """
    ref, command = check.refs[-1], check.changed_by or ""
    edits = (f for f in facts.files if f.edits and f.edits[-1] > ref)
    later = [f for f in edits if not (is_noise(f.path) or f.is_scrap)]
    inside = f"{check.folder}/" if is_outside(check.folder) else ""
    own = [f.path for f in later if f.path.startswith(inside)]
    edited = own if inside else [path for path in own if not is_outside(path)]
    elsewhere = [f.path for f in later if is_outside(f.path) and "/." not in f.path]
    since = []
    if edited:
        since.append(f"edited since: {name_paths(shorten_paths(facts, edited), 4)}")
    if command.startswith("> ") and not any(path.endswith(command[2:]) for path in edited):
        since.append(f"written since: `{command[2:]}`")
    elif command and command[0] != ">":
        since.append(f"`{shorten_command(command, 60)}` ran since")
    said = (e for e in thread.entries if e.kind == "user" and e.ref > ref)
    shown = (e.ref for e in said if check.check in JUDGED and find_marked_line(check.check, e.text))
    if check.ok and (failed := next(shown, 0)):
        since.append(f"the user showed a failed run since (#{failed})")
    if had_agents(thread, ref):
        since.append("sub-agents ran since")
    if elsewhere and not since:
        paths = name_paths(shorten_paths(facts, elsewhere), 4)
        since.append(f"edited since, outside of the folder: {paths}")
    is_unchanged = check.known and check.changed_by is not None
    return "; ".join(since) or ("nothing edited since" if is_unchanged else "")


def _describe_unknown_end(check: CommandFact) -> str:
    """Return what is known of the end of a run whose result is not shown."""
    is_aborted = check.outcome == INTERRUPTED
    return "it was interrupted" if is_aborted else "tasuki cannot tell how it ended"


def _format_result(check: CommandFact) -> str:
    if check.result == "not shown":
        return f"was run; {_describe_unknown_end(check)}"
    if check.result == "did not run":
        return f"did not run: `{check.error}`" if check.error else "did not run"
    if check.ok and (check.outcome.startswith("ok in ") or check.outcome.endswith(" suites")):
        return f"passed, {check.outcome}"  # Counted, not quoted.
    if check.ok:
        return f"passed: `{check.outcome}`" if check.outcome else "passed"
    error = f": `{check.error}`" if check.error else ""
    names = [name for name in check.failed_tests if name not in check.error]
    return f"FAILED{error}{f'; failing: {name_paths(names, MOST_FAILING)}' if names else ''}"


MOST_FAILING = 3
"""Failing tests that are named."""
