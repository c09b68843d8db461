"""`tasuki agent answer`: what a waiting agent asks, and the answer to it."""

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import JSON_OPTION, print_json, print_result
from tasuki.errors import NotPossible
from tasuki.files import replace_file
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.text_safety import clean_for_display, shorten_to_line

SHOWN_FILE = "shown-questions.json"
"""In the folder of the server: what was shown last of each agent, on each terminal."""
MOST_SHOWN = 200


@click.command()
@click.argument("id", type=int)
@click.argument("words", nargs=-1, metavar="[CHOICE…|TEXT…]")
@click.option(
    "--mark", default="", metavar="MARK",
    help="Mark of the question that you mean. Default: the one shown here last.",
)  # fmt: skip
@click.option("--whole", is_flag=True, help="Show the whole question, and its mark.")
@JSON_OPTION
def answer(id: int, words: tuple[str, ...], mark: str, whole: bool, as_json: bool) -> int:
    """Answer what a waiting agent asks; without an answer, show the question.

    CHOICE is the number of a choice; give several if several can be ticked. Keys are pressed once,
    and only while the question shown here last is still on the agent's screen. If it asks something
    else by now, that is shown instead. A long or new question is shown whole first; a script passes
    its --mark. Exit code 1 if nothing proves that the answer arrived.
    """
    client = create_client()
    data: dict[str, Any] | None = client.get("agents", id)["question"]
    if data is None:
        raise NotPossible(f"Agent {id} asks nothing. What it does: tasuki agent show {id}")
    question = msgspec.convert(data, AgentQuestion)
    shown = _ShownQuestions(client.folder, id)
    if not words:
        print_json({"question": data}) if as_json else _show_question(id, question, whole)
        shown.keep(question)
        return 0
    if question.has_secret and not question.obstacle:  # what the server replaced on its way here
        raise NotPossible("A secret is hidden in it here: answer it in its terminal.")
    if not mark:
        _check_shown(id, question, shown, " ".join(words))
    body: dict[str, Any] = {"mark": mark or question.mark}
    keys = {choice.key for choice in question.choices}
    if question.takes_several and keys.issuperset(words):
        body["choices"] = words
    elif len(words) == 1 and words[0] in keys:
        body["choice"] = words[0]
    else:
        body["text"] = " ".join(words)
    result = client.post("agents", id, "answer", body=body)
    is_proven = result["state"] == "proven"
    taken = f"Agent {id} took it: {shorten_to_line(result['answer'])}" if is_proven else ()
    missed = f"uncertain: {shorten_to_line(result['why'] or '')} tasuki agent attach {id}"
    print_result(as_json, {"answered": result}, taken, "" if is_proven else missed)
    return 0 if is_proven else 1


class _ShownQuestions:
    """What was shown last of an agent's questions in this terminal; without one, to any program."""

    def __init__(self, folder: Path, id: int) -> None:
        self._path = folder / SHOWN_FILE
        self._key = f"{id} {os.ttyname(0) if sys.stdin.isatty() else ''}"

    def find(self) -> str:
        """Return what stands for the question that was shown last; empty for none."""
        return self._load().get(self._key, "")

    def keep(self, question: AgentQuestion) -> None:
        """Keep which question was shown. Where that cannot be written, it was not."""
        others = [(key, value) for key, value in self._load().items() if key != self._key]
        known = dict([*others, (self._key, _identify_question(question))][-MOST_SHOWN:])
        with contextlib.suppress(OSError):
            replace_file(self._path, msgspec.json.encode(known), synced=False)

    def _load(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}


def _identify_question(question: AgentQuestion) -> str:
    parts = (question.mark, question.choices)
    return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()


def _check_shown(id: int, question: AgentQuestion, shown: _ShownQuestions, words: str) -> None:
    """Check that a question is the one that was shown here, or ask. Raises NotPossible for no."""
    if question.obstacle:
        raise NotPossible(f"{question.obstacle} Nothing was typed.")
    known = shown.find()
    if known and known != _identify_question(question):
        _show_question(id, question, whole=False, is_error=True)
        shown.keep(question)
        raise NotPossible(
            "It asks something else than what was shown here last. Nothing was typed."
        )
    if known and not question.is_long:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        about = f"It is about {question.size}." if known else "It was not shown here yet."
        raise NotPossible(
            f"{about} Read it: tasuki agent answer {id} --whole. Then answer with --mark and its mark."
        )
    for line in (*_list_lines(question, question.detail), *_list_choices(question)):
        click.echo(line, err=True)
    about = ", ".join(filter(None, (f"Answer {words!r} to this", question.size)))
    if not click.confirm(f"{about}?", err=True):
        raise NotPossible("Nothing was answered.")


def _list_lines(question: AgentQuestion, detail: str) -> list[str]:
    """List the lines of a question: what it is about, indented, and apart from it the agent's words."""
    return [
        clean_for_display(question.title),
        *([f"  File: {clean_for_display(question.file)}"] if question.file else []),
        *(f"    {line}" for line in clean_for_display(detail).splitlines()),
        *([f"  The agent says: {clean_for_display(question.said)}"] if question.said else []),
    ]


def _list_choices(question: AgentQuestion) -> list[str]:
    return [
        f"{clean_for_display(choice.key):>2}  {clean_for_display(choice.label)}"
        for choice in question.choices
    ]


def _show_question(
    id: int, question: AgentQuestion, whole: bool, *, is_error: bool = False
) -> None:
    lines = _list_lines(question, question.detail if whole else question.excerpt)
    rest = f"All of it: tasuki agent answer {id} --whole" if question.is_long else ""
    size = (question.size and f"{question.size}.", f"Mark: {question.mark}" if whole else rest)
    if any(size):
        lines.append(f"  {' '.join(filter(None, size))}")
    lines += _list_choices(question)
    if question.answered_at:
        lines.append(f"It was answered: {shorten_to_line(question.answer)}")
    elif question.obstacle:
        lines.append(clean_for_display(question.obstacle))
    click.echo("\n".join(lines), err=is_error)
    if question.answered_at:
        return
    choice = "CHOICE …" if question.takes_several else "CHOICE"
    ways = ((choice, question.choices), ("TEXT", question.takes_text))
    wanted = " or ".join(word for word, is_there in ways if is_there)
    how = f"tasuki agent answer {id} {wanted}" if wanted else f"tasuki agent attach {id}"
    click.echo(f"Answer it: {how}", err=True)
