"""`tasuki eval`: measures handoffs. Each command has its own file; its work loads when it runs."""

import click

from tasuki_evals.cli.cases import cases
from tasuki_evals.cli.continuation import compare, continuation
from tasuki_evals.cli.judge import judge
from tasuki_evals.cli.play import play
from tasuki_evals.cli.questions import questions


@click.group()
def eval() -> None:  # the field's own word
    """Measure handoffs: on your own threads, by questions, on made-up cases, by a judge, by hand."""


for command in (continuation, compare, questions, cases, judge, play):
    eval.add_command(command)
