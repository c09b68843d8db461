"""`tasuki eval`: measure handoffs. Each command is a file of its own; the work loads when it runs."""

import click

from tasuki.cli.eval_cases import cases
from tasuki.cli.eval_compare import compare
from tasuki.cli.eval_continuation import continuation
from tasuki.cli.eval_judge import judge
from tasuki.cli.eval_play import play
from tasuki.cli.eval_questions import questions


@click.group()
def eval() -> None:  # the field's own word
    """Measure handoffs: on threads of your own, by questions, on made-up cases, by a judge, by hand."""


for command in (continuation, compare, questions, cases, judge, play):
    eval.add_command(command)
