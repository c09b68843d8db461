"""One table of tools: what a call does, by its name and by the shape of its input."""

from typing import Any

import pytest

from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.scripts import list_script_calls
from tasuki.harness.tool_table.tools import build_tool_call, fold_input, is_own_tool
from tasuki.model import Entry, FileChange, Todo, ToolCall


def build(name: str, given: Any) -> ToolCall:
    """The call of a tool, as any reader builds it."""
    return build_tool_call("1", name, fold_input(given))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PowerShell", "shell"), ("mcp__acp__Bash", "shell"), ("functions.exec_command", "shell"),
        ("container.exec", "shell"), ("run_shell_command", "shell"), ("run_terminal_cmd", "shell"),
        ("mcp__acp__Edit", "edit"), ("str_replace_based_edit_tool", "edit"), ("edit_file_v2", "edit"),
        ("collaboration__spawn_agent", "agent"), ("copilot_readFile", "read"), ("KillShell", "background"),
        ("BashOutput", "background"), ("ExitPlanMode", "plan"), ("web_fetch", "web"), ("grep_search", "search"),
        ("mcp__linear__update", "mcp"), ("github-mcp-server-search_code", "mcp"), ("frobnicate", "other"),
    ],
)  # fmt: skip
def test_a_name_tells_what_a_tool_does(name: str, kind: str) -> None:
    """Case, separators, versions and the prefixes of programs and editors do not matter."""
    assert build_tool_call("1", name, {}).kind == kind


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [
        ("do_it", {"cmd": "make test", "cwd": "/p"}, "shell"),
        ("do_it", {"script": "make test"}, "shell"),
        ("mcp__desk__start_process", {"command": "make test", "timeout_ms": 3}, "shell"),
        ("mcp__kube__exec", {"command": "ls", "pod": "web-1"}, "mcp"),
        ("do_it", {"filePath": "/p/a.py", "oldText": "1", "newText": "2"}, "edit"),
        ("mcp__files__edit_file", {"path": "/p/a.py", "edits": [{"oldText": "1", "newText": "2"}]}, "edit"),
        ("do_it", "*** Begin Patch\n*** Update File: a.py\n@@\n-1\n+2\n*** End Patch", "edit"),
        ("do_it", {"path": "/p/a.py", "content": "x"}, "write"),
        ("mcp__github__put_file", {"owner": "me", "repo": "r", "path": "a.py", "content": "x"}, "mcp"),
        ("do_it", {"todos": [{"content": "One", "status": "pending"}]}, "todo"),
        ("do_it", {"questions": [{"question": "Which?"}]}, "ask"),
        ("mcp__x__form", {"questions": [{"question": "Which?"}]}, "mcp"),
        ("do_it", {"prompt": "Look at it", "description": "look"}, "agent"),
        ("do_it", {"path": "a.py", "offset": 3}, "read"), ("do_it", {"pattern": "x"}, "search"),
        ("do_it", {"url": "https://a.b"}, "web"), ("do_it", {"path": "a.py"}, "other"),
        ("workflow", {"script": "export const x = 1"}, "agent"),
    ],
)  # fmt: skip
def test_an_unknown_tool_is_known_by_its_input(name: str, given: Any, kind: str) -> None:
    """What a server's tool is given must leave no doubt."""
    assert build(name, given).kind == kind


@pytest.mark.parametrize(
    "given",
    [
        {"file_path": "a.py", "old_string": "1", "new_string": "2"}, {"path": "a.py", "old_str": "1", "new_str": "2"},
        {"filePath": "a.py", "oldString": "1", "newString": "2"}, {"path": "a.py", "edits": [{"oldText": "1", "newText": "2"}]},
        {"absolute_path": "a.py", "old_text": "1", "new_text": "2"},
        {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n-1\n+2\n*** End Patch"},
    ],
)  # fmt: skip
def test_one_edit_in_the_words_of_each_program(given: dict[str, Any]) -> None:
    """The arguments have many names, and mean the same."""
    call = build("Edit", given)

    assert call.changes == (FileChange("a.py", "edit", "1", "2"),)
    assert call.paths == ("a.py",)


def test_a_wrong_type_costs_one_field_alone() -> None:
    """A list where a text belongs hides nothing of the rest."""
    call = build("Bash", {"command": "make", "description": ["a", "list"], "cwd": "/p"})

    assert (call.command, call.detail, call.workdir) == ("make", "", "/p")


def test_what_is_known_by_its_shape_alone_speaks_for_nobody() -> None:
    """Only a program's own tools, known by name, may hold words of the user in their results."""
    assert is_own_tool("AskUserQuestion")
    assert not any(map(is_own_tool, ("notes_add", "mcp__x__ask", "task")))


def test_todos_have_the_ids_that_their_results_name() -> None:
    """A list that other sessions began counts on from their items; what a program lists replaces it."""
    log = CallLog(1000)

    def ask(id: str, name: str, given: dict[str, Any], output: str) -> ToolCall:
        folded = fold_input(given)
        call = build_tool_call(id, name, folded)
        log.add(Entry(1, "tool", tool=call), folded)
        log.finish(call, output, "ok")
        return call

    ask("a", "TaskCreate", {"subject": "One"}, "Task #7 created successfully: One")
    ask("b", "TaskCreate", {"subject": "Two"}, "Task #8 created successfully: Two")
    done = ask("c", "TaskUpdate", {"taskId": "8", "status": "completed"}, "Updated task #8")

    assert done.todos == (Todo("One", "pending"), Todo("Two", "done"))

    listed = ask(
        "d",
        "TaskList",
        {},
        "#8 [completed] Two\n#10 [pending] Three [blocked by #7]\n#7 [completed] One",
    )
    later = ask("e", "TaskUpdate", {"taskId": "10", "status": "in_progress"}, "Updated task #10")

    assert listed.todos == (Todo("One", "done"), Todo("Two", "done"), Todo("Three", "pending"))
    assert later.todos == (*listed.todos[:2], Todo("Three", "in_progress"))


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ("const r = await tools.exec_command({cmd:'ls -l', workdir: \"/p\"}); text(r.output)", [{"cmd": "ls -l", "workdir": "/p"}]),
        ("const p = \"a\\n\" + 'b'; text(await tools.apply_patch(p))", ["a\nb"]),
        ("await Promise.all(['x', 'y'].map(async c => tools.exec_command({cmd: `run ${c}`})))", [{"cmd": "run x"}, {"cmd": "run y"}]),
        ("const cs = [['n', 'ls']]; for (const [n, cmd] of cs) { await tools.exec_command({cmd}); }", [{"cmd": "ls"}]),
        ("await tools.exec_command({cmd: build(), workdir: '/p'})", [{"workdir": "/p"}]),
        ("text('tools.exec_command({cmd: 1})'); // tools.exec_command({cmd: 2})", []),
        ("if (/['\"]/.test(x)) await tools.exec_command({cmd: ['a', 'b'].join('\\n')})", [{"cmd": "a\nb"}]),
        ("await tools.exec_command({cmd: String.raw`C:\\new`, ...rest})", [{"cmd": "C:\\new"}]),
        ("const r = await Bash({command: 'ls'}); x.Read(1)", [{"command": "ls"}]),
        ("await tools.exec_command({cmd: 'unfinished", [None]), ("await tools.exec_command(", [None]),
    ],
)  # fmt: skip
def test_the_calls_inside_a_script(script: str, calls: list[Any]) -> None:
    """What the text states is read, what is computed is left out, and quotations are no calls."""
    assert [given for _, given in list_script_calls(script)] == calls
