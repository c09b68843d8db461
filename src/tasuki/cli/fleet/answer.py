"""`tasuki agent answer`: what a waiting agent asks, and the answer to it."""

import sys
from typing import Any

import click
import msgspec

from tasuki.cli.fleet.persona import JSON_OPTION, create_client
from tasuki.cli.output import print_json
from tasuki.errors import NotPossible
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.text_safety import clean_for_display, shorten_to_line

WIDTH_COLUMNS = 200


@click.command()
@click.argument("id", type=int)
@click.argument("words", nargs=-1, metavar="[CHOICE…|TEXT…]")
@click.option(
    "--mark", default="", metavar="MARK",
    help="Mark of the question that you mean; default: the one that is open now.",
)  # fmt: skip
@click.option("--whole", is_flag=True, help="Show all of a long command or text, and its mark.")
@JSON_OPTION
def answer(id: int, words: tuple[str, ...], mark: str, whole: bool, as_json: bool) -> int:
    """Answer what a waiting agent asks; without an answer, show the question.

    CHOICE is the number in front of a choice; where several can be taken, give each. The keys are pressed once, and only while that
    question is still on its screen. A long command is shown whole, and you are asked, before a choice is taken; with --mark you are not. Exit code 1
    where nothing shows that it was taken.
    """
    client = create_client()
    data: dict[str, Any] | None = client.get("agents", id)["question"]
    if data is None:
        raise NotPossible(f"Agent {id} asks nothing. What it does: tasuki agent show {id}")
    question = msgspec.convert(data, AgentQuestion)
    if not words:
        print_json({"question": data}) if as_json else _show_question(id, question, whole)
        return 0
    if question.is_long and not mark and not question.obstacle:
        _confirm_long(id, question, " ".join(words))
    result = client.post("agents", id, "answer", body=_build_body(question, words, mark))
    if as_json:
        print_json({"answered": result})
    elif result["state"] == "proven":
        click.echo(f"Agent {id} took it: {shorten_to_line(result['answer'], WIDTH_COLUMNS)}")
    else:
        why = shorten_to_line(result["why"], WIDTH_COLUMNS)
        click.echo(f"uncertain: {why} tasuki agent attach {id}", err=True)
    return 0 if result["state"] == "proven" else 1


def _build_body(question: AgentQuestion, words: tuple[str, ...], mark: str) -> dict[str, Any]:
    keys = {choice.key for choice in question.choices}
    body: dict[str, Any] = {"mark": mark or question.mark}
    if keys.issuperset(words) and question.takes_several:
        return {**body, "choices": words}
    if len(words) == 1 and words[0] in keys:
        return {**body, "choice": words[0]}
    return {**body, "text": " ".join(words)}


def _confirm_long(id: int, question: AgentQuestion, words: str) -> None:
    """Show a long question whole and ask whether to answer it. Raises NotPossible for no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotPossible(
            f"It is about {question.size}. Read it: tasuki agent answer {id} --whole. Then answer "
            "with --mark and its mark."
        )
    for line in _list_lines(question, question.detail):
        click.echo(line, err=True)
    if not click.confirm(f"Answer {words!r} to this, {question.size}?", err=True):
        raise NotPossible("Nothing was answered.")


def _list_lines(question: AgentQuestion, detail: str) -> list[str]:
    """List the lines of a question: what it is about, indented, and apart from it the agent's words."""
    return [
        clean_for_display(question.title),
        *([f"  File: {clean_for_display(question.file)}"] if question.file else []),
        *(f"    {line}" for line in clean_for_display(detail).splitlines()),
        *([f"  The agent says: {clean_for_display(question.said)}"] if question.said else []),
    ]


def _show_question(id: int, question: AgentQuestion, whole: bool) -> None:
    click.echo("\n".join(_list_lines(question, question.detail if whole else question.excerpt)))
    if question.size:
        rest = f" All of it: tasuki agent answer {id} --whole" if question.is_long else ""
        click.echo(f"  {question.size}.{f' Mark: {question.mark}' if whole else rest}")
    for choice in question.choices:
        click.echo(f"{clean_for_display(choice.key):>2}  {clean_for_display(choice.label)}")
    if question.answered_at:
        click.echo(f"It was answered: {shorten_to_line(question.answer, WIDTH_COLUMNS)}")
        return
    if question.obstacle:
        click.echo(clean_for_display(question.obstacle))
    wanted = " or ".join(
        word
        for word, is_there in (
            ("CHOICE …" if question.takes_several else "CHOICE", question.choices),
            ("TEXT", question.takes_text),
        )
        if is_there
    )
    how = f"tasuki agent answer {id} {wanted}" if wanted else f"tasuki agent attach {id}"
    click.echo(f"Answer it: {how}", err=True)
