"""From an author's answer to a draft that still has to be checked: numbers become facts."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from tasuki.draft.authors.answer import ChosenCommand, ChosenFile, Parsed, Said
from tasuki.draft.authors.inventory import Inventory
from tasuki.draft.authors.task import Task
from tasuki.draft.commands import short_command
from tasuki.draft.occurrence import visible
from tasuki.draft.text import shorten
from tasuki.model import CommandItem, Draft, FileItem, Item

_NUMBERS = r"U\d{1,3}(?:(?:\s*[,;&+/]\s*|\s+and\s+|\s+)U\d{1,3})*"
_ALONE = re.compile(
    rf"[\"'`(\[]*(?:user\s*)?({_NUMBERS})[\"'`)\].]*\s*(?:[:—–(\[\"“„«「-].*)?",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"U\d{1,3}", re.IGNORECASE)
_INSIDE = re.compile(r"(?<![\w`/.-])([FCU]\d{1,3})(?![\w`/]|[.-]\w)")
_BESIDE = re.compile(
    r" ?[(\[](?:(?:see|cf\.?|per|as in)\s+)?((?:U\d{1,3}(?:,\s*|\s+and\s+)?)+)[)\]]"
)
_LINE = re.compile(r"(?<=\w):\d+(?:[-:]\d+)?$")
LONG = 2_000
"""Characters of one item; nothing longer is worth a place in a brief."""


def proposed(parsed: Parsed, task: Task) -> Draft:
    """A draft that holds what an author said; nothing is checked yet."""
    answer, inventory = parsed.answer, task.inventory
    asked, limits = _constraints(answer.constraints, inventory)
    state = answer.state
    return Draft(
        goal=task.goal,
        context=(
            *_items(state.in_progress, inventory, "Under way"),
            *_items(parsed.next_steps, inventory, "Next step"),
            *_items(answer.failed_approaches, inventory, "Failed or rejected"),
            *_items(state.not_wanted, inventory, "Not wanted any more"),
            *_items(answer.relevant_information, inventory),
            *limits,
            *_items(state.done, inventory, "Done"),
        ),
        asked=tuple(asked),
        decisions=tuple(_items(answer.decisions, inventory)),
        questions=tuple(_items(answer.open_questions, inventory)),
        files=tuple(_files(answer.relevant_files, inventory)),
        commands=tuple(_commands(answer.relevant_commands, inventory)),
    )


def _files(chosen: Iterable[ChosenFile], inventory: Inventory) -> Iterator[FileItem]:
    for item in chosen:
        name = _LINE.sub("", visible(item.file[:LONG]))
        known = inventory.file(name)
        reason, refs = _spelt_out(item.reason, inventory)
        refs = (*item.refs, *refs)
        if known:
            refs = (*known.shown_in, *refs)
        path = known.path if known else name
        yield FileItem(path=path, reason=reason, refs=tuple(dict.fromkeys(refs)))


def _commands(chosen: Iterable[ChosenCommand], inventory: Inventory) -> Iterator[CommandItem]:
    for item in chosen:
        name = visible(item.command[:LONG]).strip("` ")
        known = inventory.command(name)
        reason, _ = _spelt_out(item.reason, inventory)
        if known is None:
            yield CommandItem(command=name, note=reason, refs=item.refs)
            continue
        yield CommandItem(command=short_command(known.command), note=reason, refs=known.refs[-2:])


def _constraints(said: Sequence[Said], inventory: Inventory) -> tuple[list[Item], list[Item]]:
    """Words of the user, to the letter, and limits that nobody is quoted for."""
    asked, limits = [], []
    for item in said:
        chosen = _chosen(item, inventory)
        asked += chosen
        if not chosen:
            limits.append(_item(item, inventory, "Constraint"))
    return asked, limits


def _chosen(item: Said, inventory: Inventory) -> list[Item]:
    """The sentences of the user that an item means by their numbers, where it says nothing else."""
    match = _ALONE.fullmatch(item.text[:LONG].strip())
    numbers = _NUMBER.findall(match[1]) if match else []
    found = [s for number in numbers if (s := inventory.sentence(number))]
    return [
        Item(
            text=f'"{s.text}"' + (f" — answering: {s.answers}" if s.answers else ""), refs=(s.ref,)
        )
        for s in found
    ]


def _items(said: Iterable[Said], inventory: Inventory, label: str = "") -> Iterator[Item]:
    for item in said:
        chosen = _chosen(item, inventory)
        told = f"{label}, the user" if label else "User"
        yield from (replace(one, label=told) for one in chosen)
        if not chosen:
            yield _item(item, inventory, label)


def _item(said: Said, inventory: Inventory, label: str = "") -> Item:
    text, refs = _spelt_out(said.text, inventory)
    if label and text.lower().startswith((label.lower() + ":", label.split(",")[0].lower() + ":")):
        text = text.partition(":")[2].strip()
    return Item(text=text, refs=tuple(dict.fromkeys((*said.refs, *refs))), label=label)


def _spelt_out(text: str, inventory: Inventory) -> tuple[str, tuple[int, ...]]:
    """A sentence in which numbers of the inventory stand as what they mean, and entries it gains.

    A brief has no list. A number that the thread itself speaks of stays: it may be another one.
    """
    refs: list[int] = []

    def cited(match: re.Match[str]) -> str:
        found = [inventory.sentence(number) for number in _NUMBER.findall(match[1])]
        refs.extend(s.ref for s in found if s)
        return "" if all(found) else match[0]

    def meant(match: re.Match[str]) -> str:
        name = match[1]
        if name in inventory.spoken:
            return match[0]
        if file := inventory.file(name):
            return f"`{file.path}`"
        if command := inventory.command(name):
            return f"`{short_command(command.command, 120)}`"
        if sentence := inventory.sentence(name):
            refs.append(sentence.ref)
            return f"“{sentence.text}”"
        return match[0]

    return _INSIDE.sub(meant, _BESIDE.sub(cited, visible(shorten(text, LONG)))), tuple(refs)
