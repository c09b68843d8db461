"""`tasuki agent answer`: what a waiting agent asks, and the answer to it."""

from typing import Any

import click

from tasuki.cli.fleet.persona import JSON_OPTION, create_client
from tasuki.cli.output import print_json
from tasuki.errors import NotPossible
from tasuki.text_safety import clean_for_display, shorten_to_line

WIDTH_COLUMNS = 200


@click.command()
@click.argument("id", type=int)
@click.argument("words", nargs=-1, metavar="[CHOICE…|TEXT…]")
@click.option(
    "--mark", default="", metavar="MARK",
    help="Mark of the question that you mean; default: the one that is open now.",
)  # fmt: skip
@JSON_OPTION
def answer(id: int, words: tuple[str, ...], mark: str, as_json: bool) -> int:
    """Answer what a waiting agent asks; without an answer, show the question.

    CHOICE is the number in front of a choice; where several can be taken, give each. The keys are pressed once, and only while that
    question is still on its screen. Exit code 1 where nothing shows that it was taken.
    """
    client = create_client()
    question: dict[str, Any] | None = client.get("agents", id)["question"]
    if question is None:
        raise NotPossible(f"Agent {id} asks nothing. What it does: tasuki agent show {id}")
    if not words:
        print_json({"question": question}) if as_json else _show_question(id, question)
        return 0
    keys = {choice["key"] for choice in question["choices"]}
    body: dict[str, Any] = {"mark": mark or question["mark"]}
    if keys.issuperset(words) and question.get("takes_several"):
        body["choices"] = words
    elif len(words) == 1 and words[0] in keys:
        body["choice"] = words[0]
    else:
        body["text"] = " ".join(words)
    result = client.post("agents", id, "answer", body=body)
    if as_json:
        print_json({"answered": result})
    elif result["state"] == "proven":
        click.echo(f"Agent {id} took it: {shorten_to_line(result['answer'], WIDTH_COLUMNS)}")
    else:
        why = shorten_to_line(result["why"], WIDTH_COLUMNS)
        click.echo(f"uncertain: {why} tasuki agent attach {id}", err=True)
    return 0 if result["state"] == "proven" else 1


def _show_question(id: int, question: dict[str, Any]) -> None:
    click.echo(clean_for_display(question["text"]))
    for line in clean_for_display(question["detail"]).splitlines():
        click.echo(f"    {line}")
    for choice in question["choices"]:
        label = shorten_to_line(choice["label"], WIDTH_COLUMNS)
        click.echo(f"{clean_for_display(choice['key']):>2}  {label}")
    if question["answered_at"]:
        click.echo(f"It was answered: {shorten_to_line(question['answer'], WIDTH_COLUMNS)}")
        return
    wanted = " or ".join(
        word
        for word, is_there in (
            ("CHOICE …" if question.get("takes_several") else "CHOICE", question["choices"]),
            ("TEXT", question["takes_text"]),
        )
        if is_there
    )
    how = f"tasuki agent answer {id} {wanted}" if wanted else f"tasuki agent attach {id}"
    click.echo(f"Answer it: {how}", err=True)
