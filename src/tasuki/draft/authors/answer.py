"""The answer of an author: its structure, how it is parsed, and the draft that still has to be checked."""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.authors.author import AuthorTask, FactInventory
from tasuki.draft.claims.checker import CONSTRAINT, DONE, NEXT_STEP
from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.text.entries import strip_hidden
from tasuki.draft.text.split import shorten
from tasuki.model import CommandItem, Draft, FileItem, Item
from tasuki.patterns import compile_pattern

MAX_ANSWER = 400_000
"""Maximum characters of an answer that is read."""
MAX_OBJECTS = 50
"""Opening braces at which an object is looked for."""
MAX_ITEMS = 200
"""Items of one section that are read."""


class UnusableAnswer(ValueError):
    """An answer that cannot be read; the message says why, to the author and to the user."""


class CitedSentence(Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence with the entries that support it."""

    text: str
    refs: tuple[int, ...]


class ChosenFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the inventory, `F3`, or a path."""

    file: str
    reason: str
    refs: tuple[int, ...]


class ChosenCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A command of the inventory, `C2`, or a command line."""

    command: str
    reason: str
    refs: tuple[int, ...]


class StateOfWork(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is done, in progress, and no longer wanted."""

    done: tuple[CitedSentence, ...]
    in_progress: tuple[CitedSentence, ...]
    not_wanted: tuple[CitedSentence, ...]


class CorrectedFact(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the derived state, `S2`, that the record refutes, and what holds instead."""

    fact: str
    text: str
    refs: tuple[int, ...]


class Answer(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an author extracted; the names are the seed's, with six more."""

    relevant_files: tuple[ChosenFile, ...] = ()
    relevant_commands: tuple[ChosenCommand, ...] = ()
    relevant_information: tuple[CitedSentence, ...] = ()
    decisions: tuple[CitedSentence, ...] = ()
    open_questions: tuple[CitedSentence, ...] = ()
    failed_approaches: tuple[CitedSentence, ...] = ()
    constraints: tuple[CitedSentence, ...] = ()
    state: StateOfWork = StateOfWork(done=(), in_progress=(), not_wanted=())
    next_steps: tuple[CitedSentence, ...] = ()
    corrections: tuple[CorrectedFact, ...] = ()


class ParsedAnswer(Struct, frozen=True):
    """An answer as far as it could be read, and the headings that a document lacks."""

    answer: Answer
    missing: tuple[str, ...] = ()


KEYS = msgspec.structs.fields(Answer)


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema of the structured shape, as strict endpoints require it.

    All fields are required, and the root is inlined.
    """
    (_, components) = msgspec.json.schema_components([Answer], ref_template="#/$defs/{name}")
    definitions = {}
    for name, component in components.items():
        properties = {
            field: {key: value for key, value in about.items() if key != "default"}
            for field, about in component["properties"].items()
        }
        definitions[name] = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    root = definitions.pop("Answer")
    return {**root, "$defs": definitions}


def check_length(text: str) -> None:
    """Raise UnusableAnswer for an answer that is empty or too long."""
    if not text.strip():
        raise UnusableAnswer("it was empty.")
    if len(text) > MAX_ANSWER:
        raise UnusableAnswer(f"it was {len(text):,} characters long.")


def parse_answer(text: str) -> ParsedAnswer:
    """Parse the structured shape of an answer. Raises UnusableAnswer."""
    check_length(text)
    found, error = find_last_object(text, {field.encode_name for field in KEYS})
    if found is None:
        if "{" not in text:
            raise UnusableAnswer("it holds no JSON object.")
        if not error:
            raise UnusableAnswer("its JSON object has none of the keys that were asked for.")
        cut = " It ends in the middle." if text.rstrip()[-1:] not in "}`" else ""
        raise UnusableAnswer(f"it is not valid JSON ({error}).{cut}")
    state = found.get("state")
    state = state if isinstance(state, dict) else {}
    answer = Answer(
        relevant_files=tuple(_parse_choices(found.get("relevantFiles"), "file", "path")),
        relevant_commands=tuple(
            ChosenCommand(c.file, c.reason, c.refs)
            for c in _parse_choices(found.get("relevantCommands"), "command", "cmd")
        ),
        relevant_information=_parse_sentences(found.get("relevantInformation")),
        decisions=_parse_sentences(found.get("decisions")),
        open_questions=_parse_sentences(found.get("openQuestions")),
        failed_approaches=_parse_sentences(found.get("failedApproaches")),
        constraints=_parse_sentences(found.get("constraints")),
        state=StateOfWork(
            done=_parse_sentences(state.get("done")),
            in_progress=_parse_sentences(state.get("inProgress")),
            not_wanted=_parse_sentences(state.get("notWanted")),
        ),
        next_steps=_parse_sentences(found.get("nextSteps")),
        corrections=tuple(
            CorrectedFact(c.file, c.reason, c.refs)
            for c in _parse_choices(found.get("corrections"), "fact", reason="text")
        ),
    )
    return ParsedAnswer(answer)


def find_last_object(text: str, keys: Collection[str]) -> tuple[dict[str, Any] | None, str]:
    """Return the last JSON object in a text with one of some keys, and the first error.

    Text around it does not matter; what comes before it may be a plan or an example.
    """
    decoder = json.JSONDecoder()
    best: dict[str, Any] | None = None
    start, error = text.find("{"), ""
    for _ in range(MAX_OBJECTS):
        if start < 0:
            break
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as problem:
            error = error or str(problem)
            end = start + 1
        else:
            if isinstance(found, dict) and any(key in found for key in keys):
                best = found
        start = text.find("{", end)
    return best, error


def _parse_sentences(value: object) -> tuple[CitedSentence, ...]:
    sentences = []
    for item in (value if isinstance(value, list) else [])[:MAX_ITEMS]:
        if isinstance(item, str):
            sentences.append(CitedSentence(*cut_refs(item)))
        elif isinstance(item, dict):
            text, more = cut_refs(_get_text(item.get("text")))
            refs = tuple(dict.fromkeys((*_parse_refs(item.get("refs")), *more)))
            sentences.append(CitedSentence(text, refs))
    return tuple(sentences)


def _parse_choices(value: object, *names: str, reason: str = "reason") -> Iterator[ChosenFile]:
    for item in (value if isinstance(value, list) else [])[:MAX_ITEMS]:
        if isinstance(item, str):
            text, refs = cut_refs(item)
            yield ChosenFile(text, "", refs)
        elif isinstance(item, dict):
            name_or_path = next((_get_text(item[name]) for name in names if name in item), "")
            words = _get_text(item.get(reason))
            yield ChosenFile(name_or_path.strip(), words.strip(), _parse_refs(item.get("refs")))


def _get_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parse_refs(value: object) -> tuple[int, ...]:
    """Return numbers of entries, also from `"#12"` or from one number."""
    items = value if isinstance(value, list) else [value]
    found: list[int] = []
    for item in items[:50]:
        if isinstance(item, bool):
            continue
        if isinstance(item, int):
            found.append(item)
        elif isinstance(item, str):
            found += [int(n) for n in re.findall(r"\d{1,9}", item)[:50]]
    return tuple(dict.fromkeys(n for n in found if 0 < n < 1_000_000_000))


_TRAILING = compile_pattern(r"[\[(]((?:#\d{1,9}(?:\s*[-–,;]\s*|\s+)?)+)[\])]\.?$")


def cut_refs(text: str) -> tuple[str, tuple[int, ...]]:
    """Return a sentence and the refs `[#12, #15]` at its end."""
    text = text.strip()
    match = _TRAILING.search(text)
    if match is None:
        return text, ()
    return text[: match.start()].rstrip(), _parse_refs(match[1])


_NUMBERS = r"U\d{1,3}(?:(?:\s*[,;&+/]\s*|\s+and\s+|\s+)U\d{1,3})*"
_ALONE = compile_pattern(
    rf"[\"'`(\[]*(?:user\s*)?({_NUMBERS})[\"'`)\].]*\s*(?:[:—–(\[\"“„«「-].*)?",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = compile_pattern(r"U\d{1,3}", re.IGNORECASE)
_INSIDE = compile_pattern(r"(?<![\w`/.-])([FCU]\d{1,3})(?![\w`/]|[.-]\w)")
_BESIDE = compile_pattern(
    r" ?[(\[](?:(?:see|cf\.?|per|as in)\s+)?((?:U\d{1,3}(?:,\s*|\s+and\s+)?)+)[)\]]"
)
_LINE = compile_pattern(r"(?<=\w):\d+(?:[-:]\d+)?$")
MAX_FACT = 100
"""Characters of a corrected line that are repeated."""
MAX_TEXT = 2_000
"""Characters of one item; longer ones do not belong in a brief."""


def build_proposal(parsed: ParsedAnswer, task: AuthorTask) -> Draft:
    """Return a draft with what an author said; nothing is checked yet."""
    answer, inventory = parsed.answer, task.inventory
    state = answer.state
    asked: list[Item] = []  # Words of the user, verbatim.
    limits: list[Item] = []
    for constraint in answer.constraints:
        chosen = _select_sentences(constraint, inventory)
        asked += chosen
        limits += () if chosen else (_build_item(constraint, inventory, CONSTRAINT),)
    corrections = []  # What holds instead of lines of the derived state.
    for one in answer.corrections:
        if (known := inventory.find_state(one.fact)) and one.text.strip():
            line = shorten(f"{known.label}: {known.text}" if known.label else known.text, MAX_FACT)
            label = f"Instead of “{line}”"
            corrections.append(Item(text=strip_hidden(one.text), refs=one.refs, label=label))
    return Draft(
        goal=task.goal,
        context=(
            *_build_items(answer.next_steps, inventory, NEXT_STEP),
            *_build_items(state.in_progress, inventory, "Under way"),
            *_build_items(answer.failed_approaches, inventory, "Failed or rejected"),
            *_build_items(state.not_wanted, inventory, "Not wanted any more"),
            *_build_items(answer.relevant_information, inventory),
            *limits,
            *_build_items(state.done, inventory, DONE),
        ),
        asked=tuple(asked),
        state=tuple(corrections),
        decisions=tuple(_build_items(answer.decisions, inventory)),
        questions=tuple(_build_items(answer.open_questions, inventory)),
        files=tuple(_build_files(answer.relevant_files, inventory)),
        commands=tuple(_build_commands(answer.relevant_commands, inventory)),
    )


def _build_files(chosen: Iterable[ChosenFile], inventory: FactInventory) -> Iterator[FileItem]:
    for item in chosen:
        name = _LINE.sub("", strip_hidden(item.file[:MAX_TEXT]))
        known = inventory.find_file(name)
        reason, refs = _spell_out(item.reason, inventory)
        refs = (*(known.shown_in if known else ()), *item.refs, *refs)
        path = known.path if known else name
        yield FileItem(path=path, reason=reason, refs=tuple(dict.fromkeys(refs)))


def _build_commands(
    chosen: Iterable[ChosenCommand], inventory: FactInventory
) -> Iterator[CommandItem]:
    for item in chosen:
        name = strip_hidden(item.command[:MAX_TEXT]).strip("` ")
        known = inventory.find_command(name)
        reason, _ = _spell_out(item.reason, inventory)
        command = shorten_command(known.command) if known else name
        refs = known.refs[-2:] if known else item.refs
        yield CommandItem(command=command, note=reason, refs=refs)


def _select_sentences(item: CitedSentence, inventory: FactInventory) -> list[Item]:
    """Return the user's sentences that an item names by number, if it says nothing else."""
    match = _ALONE.fullmatch(item.text[:MAX_TEXT].strip())
    numbers = _NUMBER.findall(match[1]) if match else []
    found = [s for number in numbers if (s := inventory.find_sentence(number))]
    return [Item(text=s.shown, refs=(s.ref,)) for s in found]


def _build_items(
    sentences: Iterable[CitedSentence], inventory: FactInventory, label: str = ""
) -> Iterator[Item]:
    for item in sentences:
        chosen = _select_sentences(item, inventory)
        user_label = f"{label}, the user" if label else "User"
        yield from (replace(one, label=user_label) for one in chosen)
        if not chosen:
            yield _build_item(item, inventory, label)


def _build_item(sentence: CitedSentence, inventory: FactInventory, label: str = "") -> Item:
    text, refs = _spell_out(sentence.text, inventory)
    if label and text.lower().startswith((label.lower() + ":", label.split(",")[0].lower() + ":")):
        text = text.partition(":")[2].strip()
    return Item(text=text, refs=tuple(dict.fromkeys((*sentence.refs, *refs))), label=label)


def _spell_out(text: str, inventory: FactInventory) -> tuple[str, tuple[int, ...]]:
    """Return a sentence with numbers of the inventory replaced by their meaning, and added refs.

    A brief has no list. A number that the thread itself mentions stays: it may be another one.
    """
    refs: list[int] = []

    def replace_citation(match: re.Match[str]) -> str:
        found = [inventory.find_sentence(number) for number in _NUMBER.findall(match[1])]
        refs.extend(s.ref for s in found if s)
        return "" if all(found) else match[0]

    def replace_number(match: re.Match[str]) -> str:
        name = match[1]
        if name in inventory.spoken:
            return match[0]
        if file := inventory.find_file(name):
            return f"`{file.path}`"
        if command := inventory.find_command(name):
            return f"`{shorten_command(command.command, 120)}`"
        if sentence := inventory.find_sentence(name):
            refs.append(sentence.ref)
            return f"“{sentence.text}”"
        return match[0]

    text = _BESIDE.sub(replace_citation, strip_hidden(shorten(text, MAX_TEXT)))
    return _INSIDE.sub(replace_number, text), tuple(refs)
