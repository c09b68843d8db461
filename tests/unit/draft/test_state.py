"""The lines of *State of the work*: each proved by an exit code or by what a program printed."""

from pathlib import Path
from typing import Any

import pytest
from making import thread_of

from tasuki.draft.facts import state
from tasuki.draft.facts.commands import find_formatter, find_last_checks, list_runs
from tasuki.draft.facts.derive import derive_facts
from tasuki.model import Entry, FileChange, Thread, Todo, ToolCall, ToolKind, ToolStatus
from tasuki_testing import ThreadBuilder

CLEAN = "On branch main\nnothing to commit, working tree clean"


def lines_of(builder: ThreadBuilder, folder: Path) -> list[tuple[str, str]]:
    """Label and text of the state lines of a thread, without how a file is known to be uncommitted."""
    thread = thread_of(builder, folder)
    items = state.list_state_items(thread, derive_facts(thread).facts)
    return [(i.label.removesuffix(", as far as the thread shows"), i.text) for i in items]


def check(command: str, output: str = "", status: ToolStatus = "ok", ref: int = 1) -> Entry:
    """An entry in which a command ended."""
    code = {"ok": 0, "error": 1}.get(status)
    call = ToolCall(
        "", "Bash", "shell", command=command, output=output, status=status, exit_code=code
    )
    return Entry(ref=ref, kind="tool", tool=call)


def results_of(*entries: Entry) -> dict[str, tuple[int, bool]]:
    """The entry of the last check of each kind, and whether it passed; only known results."""
    found = find_last_checks(list_runs(entries))
    return {c.check: (c.refs[-1], c.ok) for c in found if c.known}


def test_commits_are_told_by_branch_and_push(tmp_path: Path) -> None:
    """The branch that git printed; a claim of a push stands once where it holds for all."""
    builder = (
        ThreadBuilder("claude")
        .user("go")
        .shell("git commit -m one", "[main 1111111] one")
        .shell("git push", "   0000000..1111111  main -> main")
        .shell("git commit -m two", "[main 2222222] two")
        .shell("git commit -m three", "[topic 3333333] three")
    )

    assert lines_of(builder, tmp_path) == [
        ("Committed on `topic`", "`3333333` three — no push seen"),
        ("Committed on `main`, earlier", "`2222222` two (no push seen); `1111111` one (pushed)"),
    ]


def test_a_branch_without_commits_says_so(tmp_path: Path) -> None:
    """Other branches may have some; what sub-agents did nobody can tell."""
    start = ThreadBuilder("claude").user("go")
    switched = start.shell("git commit -m one", "[main 1111111] one").shell("git switch b", "")

    assert ("Branch", "`b`; nothing was committed on it in this thread") in lines_of(
        switched, tmp_path
    )


def test_a_clean_tree_is_told_until_the_next_edit(tmp_path: Path) -> None:
    """An edit afterwards is not committed yet; of the one before, somebody unseen may have committed it."""
    builder = ThreadBuilder("claude").user("go").edit("a.py", "1", "2").shell("git status", CLEAN)
    clean = lines_of(builder, tmp_path)
    edited = lines_of(builder.edit("b.py", "1", "2"), tmp_path)

    assert clean == [("Branch", "`main`; git called the tree clean")]
    assert edited == [
        ("Branch", "`main`"),
        ("Not committed yet", "`b.py`"),
    ]


@pytest.mark.parametrize(
    ("commands", "left"),
    [
        ([("git add src/Cart.cs && git commit -m cart", "[main 1a2b3c4] cart")], "Shop.cs"),
        ([(r"git -C C:\Users\dev\shop add C:/Users/dev/shop/src/Cart.cs", ""), ("git commit -m cart", "[main 1a2b3c4] cart")], "Shop.cs"),
        ([("cd /c/Users/dev/shop && git status --short", " M src/Shop.cs\n")], "Shop.cs"),
        ([("git status", "nothing to commit, working tree clean")], ""),
    ],
)  # fmt: skip
def test_git_and_an_editor_name_one_file_on_windows(
    tmp_path: Path, commands: list[tuple[str, str]], left: str
) -> None:
    """What git names with slashes is the file that was edited with backslashes, in either case."""
    builder = ThreadBuilder("claude", r"C:\Users\dev\shop").user("Go on")
    builder.edit(r"C:\Users\dev\shop\src\Cart.cs", "1", "2").edit(
        r"c:\users\dev\shop\src\Shop.cs", "1", "2"
    )
    for command, output in commands:
        builder.shell(command, output)
    lines = dict(lines_of(builder, tmp_path))

    assert ("`Shop.cs`" if left else None) == lines.get("Not committed yet")


def test_what_git_ignores_does_not_wait_for_a_commit(tmp_path: Path) -> None:
    """Files below an ignored folder are left out."""
    builder = (
        ThreadBuilder("claude")
        .user("go")
        .create("docs/plans/a.md", "x")
        .edit("src/b.py", "1", "2")
        .shell("git check-ignore -v docs/plans/a.md", ".gitignore:5:docs/plans\tdocs/plans/a.md")
        .create("docs/plans/c.md", "x")
    )

    assert ("Not committed yet", "`b.py`") in lines_of(builder, tmp_path)


def test_a_formatter_of_the_whole_tree_may_have_changed_more(tmp_path: Path) -> None:
    """The list of files and the age of a check say so."""
    builder = (
        ThreadBuilder("claude")
        .user("go")
        .edit("a.py", "1", "2")
        .shell("pytest -q", "5 passed")
        .shell("ruff format .", "12 files reformatted")
    )

    lines = lines_of(builder, tmp_path)

    assert ("Not committed yet", "`a.py`, and what `ruff format .` changed") in lines
    assert ("Tests", "`pytest -q` passed: `5 passed`; `ruff format .` ran since") in lines


def test_edits_after_a_check_are_named(tmp_path: Path) -> None:
    """Those of the project first; those of another folder where there are no others."""
    builder = ThreadBuilder("claude").user("go").shell("pytest -q", "5 passed")
    elsewhere = lines_of(builder.edit("../other/a.py", "1", "2"), tmp_path)
    here = lines_of(builder.edit("b.py", "1", "2"), tmp_path)

    assert elsewhere[-1][1].endswith("; edited since, outside of the folder: `a.py`")
    assert here[-1][1].endswith("; edited since: `b.py`")


@pytest.mark.parametrize(
    ("command", "formatter"),
    [
        ("mise run fmt 2>&1", "mise run fmt"),
        ("npm run format && npm test", "npm run format"),
        ("gofmt -s -w .", "gofmt -s -w ."),
        ("cargo fmt", "cargo fmt"),
        ("npx prettier --write .", "npx prettier --write ."),
        ("gofmt -w a.go", ""),
        ("gofmt -l .", ""),
        ("cargo fmt --check", ""),
        ("mise run lint:gofmt", ""),
        ("mise run fmt:check", ""),
        ("ruff format a.py", ""),
        ("grep -n format x.py", ""),
    ],
)
def test_formatters_of_the_whole_tree(command: str, formatter: str) -> None:
    """One file, or a check of the format, changes nothing else."""
    assert find_formatter(command) == formatter


def test_a_check_in_an_environment_is_a_check() -> None:
    """`env NAME=value` runs the program that follows."""
    assert results_of(check("env GOCACHE=/tmp/x GOFLAGS='-v' go test ./...", "ok  p 0.1s")) == {
        "test": (1, True)
    }
    assert results_of(check("env | grep test", "x")) == {}


def test_pnpm_and_yarn_run_scripts_without_run() -> None:
    """`pnpm lint`, `pnpm -s check-types`, `yarn build`."""
    for command in ("pnpm lint", "pnpm -s check-types", "yarn lint"):
        assert list(results_of(check(command))) == ["lint"]
    assert list(results_of(check("yarn build"))) == ["build"]
    assert results_of(check("npm lint")) == {}


def test_an_interrupted_run_is_no_result() -> None:
    """The run before it counts."""
    first = check("go test ./...", "ok  p 0.1s")
    stopped = check("go test ./...", "aborted by user after 10.2s", "aborted", ref=2)

    assert results_of(first, stopped) == {"test": (1, True)}
    assert results_of(stopped) == {}


def test_a_compiler_that_complains_behind_a_pipe_failed() -> None:
    """`head` ends well whatever the compiler said; a warning shows neither."""
    broken = "# app/agent\nagent/x.go:189:10: undefined: Type"
    warned = "parser.c:254:18: warning: null character"

    assert results_of(check("go build ./... 2>&1 | head -30", broken)) == {"build": (1, False)}
    assert results_of(check("go build ./... 2>&1 | head -30", warned)) == {}
    assert results_of(check("go build ./... 2>&1 | head -30", "")) == {"build": (1, True)}
    assert results_of(check("go build ./...", broken)) == {"build": (1, True)}


def test_a_filter_that_hides_the_result_tells_none() -> None:
    """Counts of issues are no verdict, and what failed before may have passed; a line that says how it ended is one."""
    failed = check("golangci-lint run", "3 issues:", "error")
    counted = check("golangci-lint run | grep -oE x | sort | uniq -c", " 114 (wrapcheck)", ref=2)
    told = check("go test ./... | grep -E 'ok|FAIL'", "ok  p 0.1s", ref=3)

    assert results_of(failed, counted, told) == {"test": (3, True)}


def test_in_a_chain_only_the_check_that_failed_has_failed() -> None:
    """What stands after it did not run; where nothing tells which it was, neither has."""
    before = check("npm test && npm run lint", "5 passed")
    tests = check("npm test && npm run lint", "1 failed", "error", ref=2)
    lint = check("npm run lint && npm test", "x.ts: unused", "error", ref=3)

    assert results_of(before, tests) == {"test": (2, False), "lint": (1, True)}
    assert results_of(before, lint) == {"test": (1, True), "lint": (1, True)}


def thread_with(*calls: ToolCall | str, aborted: bool = False) -> list[tuple[str, str, int]]:
    """Label, text and entry of the state lines of a thread with some calls and messages of the user."""
    entries = [
        Entry(n, "user", c, origin="plan" if c.startswith("# ") else "harness" if c.startswith("{") else "typed")
        if isinstance(c, str)
        else Entry(n, "tool", tool=c)
        for n, c in enumerate(calls, 1)
    ]  # fmt: skip
    thread = Thread("claude", "t", "", "/p", entries=tuple(entries), aborted=aborted)
    items = state.list_state_items(thread, derive_facts(thread).facts)
    return [(item.label, item.text, item.refs[0]) for item in items]


def call(name: str, kind: ToolKind, status: ToolStatus, **fields: Any) -> ToolCall:
    """A call that ended in some way."""
    return ToolCall("", name, kind, status=status, **fields)


def test_a_plan_is_approved_until_there_is_a_newer_one() -> None:
    """A newer one that the user refused is told as refused; what the harness wrote interrupts nothing."""
    newer = call("ExitPlanMode", "plan", "refused", detail="# The other way\n1. Turn")

    assert ("Approved plan", "One way; Go", 1) in thread_with("# One way\n1. Go")
    later = "Approved plan, before 1 later message of the user"
    assert (later, "One way; Go", 1) in thread_with("# One way\n1. Go", "now the docs")
    assert thread_with("# One way\n1. Go", newer, '{"task_id":"a"}', aborted=True) == [
        ("", "The user interrupted the last turn", 2),
        ("Refused by the user", "the plan “The other way”", 2),
    ]


def test_what_was_done_before_a_later_message_is_told_as_such() -> None:
    """The user may have found by then that it is wrong."""
    todos = call("TodoWrite", "todo", "ok", todos=(Todo("Ship", "done"), Todo("Tell", "pending")))

    assert [label for label, _, _ in thread_with("go", todos, "no, that is wrong")] == [
        "Todo list, open", "Todo list, done before a later message of the user",
    ]  # fmt: skip
    assert "Todo list, done" in [label for label, _, _ in thread_with("go", todos)]


def test_a_todo_list_from_before_many_entries_is_told_with_its_age() -> None:
    """Its tasks may be done by now."""
    todos = call("TodoWrite", "todo", "ok", todos=(Todo("Ship", "in_progress"),))
    later = [call("Read", "read", "ok", paths=(f"{n}.py",)) for n in range(11)]

    labels = [label for label, _, _ in thread_with("go", todos, *later)]
    assert "Todo list, in progress when last written, 11 entries ago" in labels


def test_a_failed_build_that_tests_made_up_for_is_not_told() -> None:
    """Tests of the same program cannot pass without it; those of another one can."""
    build = call(
        "Bash",
        "shell",
        "error",
        command="cargo check",
        output="error[E0063]: missing field",
        exit_code=101,
    )
    passed = "test result: ok. 3 passed; 0 failed; 0 ignored"
    tests = call("Bash", "shell", "ok", command="cargo test", output=passed, exit_code=0)
    others = call("Bash", "shell", "ok", command="pytest -q", output="3 passed in 1s", exit_code=0)

    assert "Build" not in [label for label, _, _ in thread_with(build, tests)]
    assert "Build" in [label for label, _, _ in thread_with(build, others)]


@pytest.mark.parametrize(
    ("refused", "later", "is_told"),
    [
        ("git add a.png b.png && git status", "git add . && git commit -m x", False),
        ("git add a.png", "cd app && git add a.png", False),
        ("git push", "git push", False),
        ("rm -r old", "rm new.txt", True),
        ("git push --force", "git status", True),
    ],
)
def test_what_was_refused_and_went_through_later_is_no_refusal(
    refused: str, later: str, is_told: bool
) -> None:
    """The same command on the same things; another thing stays refused."""
    lines = thread_with(
        "go", call("Bash", "shell", "refused", command=refused), "ok, but first look",
        call("Bash", "shell", "ok", command=later),
    )  # fmt: skip

    assert is_told == any(label == "Refused by the user" for label, _, _ in lines)


def test_a_thread_without_an_entry_has_no_state() -> None:
    """A thread of which nothing is left, as of an agent that was given no prompt, is no error."""
    from tasuki.model import Thread

    empty = Thread(harness="claude", id="a", path="/nowhere")

    assert list(state.list_state_items(empty, derive_facts(empty).facts)) == []


def test_a_failed_run_that_the_user_shows_is_told(tmp_path: Path) -> None:
    """What the agent ran passed, what the user pasted since did not: both stand in one line."""
    run = ThreadBuilder("claude").user("go").shell("go test ./...", "ok  \tapp/sync\t0.9s")
    shown = run.user("still broken here:\n--- FAIL: TestSync (8.15s)\nFAIL\tapp/sync\t8.2s")

    assert lines_of(shown, tmp_path)[-1] == (
        "Tests",
        "`go test ./...` passed: `ok app/sync 0.9s`; the user showed a failed run since (#3)",
    )


@pytest.mark.parametrize("status", ["running", "aborted"])
def test_an_edit_without_a_result_is_no_change(status: ToolStatus) -> None:
    """Nobody knows whether it was done; where it was called last, that is told."""
    changes = (FileChange("/home/dev/proj/src/a.py", "edit", "1", "2"),)
    call = ToolCall("", "Edit", "edit", paths=("src/a.py",), changes=changes, status=status)
    entries = (Entry(1, "user", "go"), Entry(2, "tool", tool=call))
    thread = Thread("claude", "t", "", cwd="/home/dev/proj", entries=entries)
    facts = derive_facts(thread).facts
    told = [(i.label, i.text) for i in state.list_state_items(thread, facts)]

    assert not facts.files
    assert (
        told
        == [("Called last", "an edit of `src/a.py`; no result is recorded")][: status == "running"]
    )


def test_a_run_that_was_interrupted_says_so(tmp_path: Path) -> None:
    """What a harness says was stopped is not unknown."""
    entry = check("npm test", "> vitest\nCommand aborted", "aborted", ref=2)
    thread = Thread("pi", "t", "", entries=(Entry(1, "user", "go"), entry))
    told = [i.text for i in state.list_state_items(thread, derive_facts(thread).facts)]

    assert "`npm test` was run; it was interrupted" in told


@pytest.mark.parametrize(
    ("command", "output", "code", "since"),
    [
        ("git submodule update --init", "fatal: unable to access", 128, "nothing edited since"),
        ("git submodule update --init", "Submodule path 'a': checked out '1'", 0, "`git submodule update --init` ran since"),
        ("git stash pop", "CONFLICT (content): Merge conflict in a.py", 1, "`git stash pop` ran since"),
    ],
)  # fmt: skip
def test_a_command_of_git_that_failed_changed_nothing(
    command: str, output: str, code: int, since: str, tmp_path: Path
) -> None:
    """But for those that leave a conflict behind."""
    run = (
        ThreadBuilder("codex")
        .user("go")
        .shell("pytest -q", "3 passed in 1s")
        .shell(command, output, code)
    )

    assert ("Tests", f"`pytest -q` passed: `3 passed in 1s`; {since}") in lines_of(run, tmp_path)


def test_more_calls_without_a_result_are_counted() -> None:
    """The last two are named."""
    calls = [
        ToolCall("", "Bash", "shell", command=f"make {name}", status="running") for name in "abc"
    ]
    entries = tuple(Entry(n, "tool", tool=call) for n, call in enumerate(calls, 1))
    thread = Thread("claude", "t", "", entries=entries)
    told = [i.text for i in state.list_state_items(thread, derive_facts(thread).facts)]

    assert told == ["1 more, `make b` and `make c`; no result is recorded"]
