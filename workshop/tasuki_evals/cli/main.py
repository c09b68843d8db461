"""`tasuki eval`: measures handoffs. Each command has its own file, loaded when it is called."""

from importlib import import_module

import click

MODULES = {
    "continuation": "continuation", "compare": "continuation", "questions": "questions",
    "cases": "cases", "judge": "judge", "play": "play",
}  # fmt: skip
"""The module of each command, below this folder."""


class EvalGroup(click.Group):
    """A group whose commands are imported one by one."""

    names = tuple(MODULES)
    """The commands in the order of the documentation."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        module = import_module(f"tasuki_evals.cli.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=EvalGroup)
def eval() -> None:  # the field's own word
    """Measure handoffs: on your own threads, by questions, on made-up cases, by a judge, by hand."""
