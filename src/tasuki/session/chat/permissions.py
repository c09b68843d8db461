"""The agent's questions for permission, one after the other, with the careful answer first to hand."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from tasuki.plain import one_line, shown
from tasuki.session.backend import Permission, PermissionOption, Tool
from tasuki.session.chat.tool_lines import diff_lines, tool_title
from tasuki.session.chat.view import Choice, View

_COMMANDS = ("command", "cmd", "script")
SHOWN = 8


class Permissions:
    """Asks the user what the agent may do; while one question is open the others wait."""

    def __init__(self, view: View, title: str) -> None:
        self.view, self.title = view, title
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, permission: Permission) -> None:
        """Ask, and answer the agent when the user did."""
        task = asyncio.get_running_loop().create_task(self._ask(permission))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, permission: Permission) -> None:
        async with self._lock:
            chosen = await self.view.choose(question(permission, self.title))
        answer = None if chosen is None else permission.options[chosen]
        permission.answer(answer.id if answer else None)


def question(permission: Permission, title: str) -> Choice:
    """A question for permission as the user is asked it."""
    tool = permission.tool
    return Choice(
        f"{title} asks: {tool_title(tool)}",
        tuple(one_line(option.name, 70) for option in permission.options),
        careful(permission.options),
        tuple(_details(tool)),
    )


def careful(options: Sequence[PermissionOption]) -> int | None:
    """Index of the answer that allows least: refuse this once, else refuse; None if none refuses."""
    for kind in ("reject_once", "reject_always"):
        for index, option in enumerate(options):
            if option.kind == kind:
                return index
    return None


def _details(tool: Tool) -> Iterator[str]:
    """What exactly is to be done: the command, or the change."""
    given = (tool.arguments.get(name) for name in _COMMANDS)
    command = next((c for c in given if isinstance(c, str)), "")
    if command and command not in tool.title:
        yield from _some(f"$ {line}" for line in shown(command).splitlines())
    for diff in tool.diffs:
        yield from _some(line.text.plain for line in diff_lines(diff))


def _some(lines: Iterable[str]) -> Iterator[str]:
    lines = list(lines)
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"… {len(lines) - SHOWN} more lines"
