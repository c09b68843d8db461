"""The answer of an author that is asked: its structure, and how it is read from what was said.

Two shapes are read: one JSON object with the seed's fields, and the seed's Markdown document. What
stands around the JSON, and small liberties inside it, are forgiven; what cannot be read is said.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import Struct

MAX_ANSWER = 400_000
"""Characters of an answer that is read at all."""
OBJECTS = 50
"""Opening braces at which an object is looked for."""
MAX_ITEMS = 200
"""Items of one section that are looked at."""


class Unusable(ValueError):
    """An answer that cannot be read; the message says why, to the author and to the user."""


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence with the entries it rests on."""

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
    """What is done, under way, and called off."""

    done: tuple[Said, ...]
    in_progress: tuple[Said, ...]
    not_wanted: tuple[Said, ...]


class Answer(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an author extracted; the names are the seed's, with four more."""

    relevant_files: tuple[ChosenFile, ...] = ()
    relevant_commands: tuple[ChosenCommand, ...] = ()
    relevant_information: tuple[Said, ...] = ()
    decisions: tuple[Said, ...] = ()
    open_questions: tuple[Said, ...] = ()
    failed_approaches: tuple[Said, ...] = ()
    constraints: tuple[Said, ...] = ()
    state: StateOfWork = StateOfWork(done=(), in_progress=(), not_wanted=())


class Parsed(Struct, frozen=True):
    """An answer as far as it could be read, and the keys or headings that it lacks."""

    answer: Answer
    missing: tuple[str, ...] = ()
    next_steps: tuple[Said, ...] = ()
    """Of the Markdown shape alone."""


KEYS = msgspec.structs.fields(Answer)


def schema() -> dict[str, Any]:
    """JSON Schema of the structured shape, as strict endpoints want it: all required, root inlined."""
    (_, components) = msgspec.json.schema_components([Answer], ref_template="#/$defs/{name}")
    definitions = {name: _strict(found) for name, found in components.items()}
    root = definitions.pop("Answer")
    return {**root, "$defs": definitions}


def _strict(found: dict[str, Any]) -> dict[str, Any]:
    properties = {
        name: {k: v for k, v in about.items() if k != "default"}
        for name, about in found["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def check_length(text: str) -> None:
    """Raises Unusable for an answer that is empty, or longer than any is read."""
    if not text.strip():
        raise Unusable("it was empty.")
    if len(text) > MAX_ANSWER:
        raise Unusable(f"it was {len(text):,} characters long.")


def parse(text: str) -> Parsed:
    """The structured shape from an answer. Raises Unusable."""
    check_length(text)
    found = _object(text)
    state = found.get("state")
    state = state if isinstance(state, dict) else {}
    names = [field.encode_name for field in KEYS]
    answer = Answer(
        relevant_files=tuple(_chosen(found.get("relevantFiles"), "file", "path")),
        relevant_commands=tuple(
            ChosenCommand(c.file, c.reason, c.refs)
            for c in _chosen(found.get("relevantCommands"), "command", "cmd")
        ),
        relevant_information=_said(found.get("relevantInformation")),
        decisions=_said(found.get("decisions")),
        open_questions=_said(found.get("openQuestions")),
        failed_approaches=_said(found.get("failedApproaches")),
        constraints=_said(found.get("constraints")),
        state=StateOfWork(
            done=_said(state.get("done")),
            in_progress=_said(state.get("inProgress")),
            not_wanted=_said(state.get("notWanted")),
        ),
    )
    return Parsed(answer, tuple(name for name in names if name not in found))


def _object(text: str) -> dict[str, Any]:
    found, error = last_object(text, {field.encode_name for field in KEYS})
    if found is None:
        raise Unusable(_why(text, error))
    return found


def last_object(text: str, keys: Collection[str]) -> tuple[dict[str, Any] | None, str]:
    """The last JSON object in a text that has one of some keys, and what was wrong with the first.

    What stands around it does not matter; what comes before it may be a plan or an example.
    """
    decoder = json.JSONDecoder()
    best: dict[str, Any] | None = None
    at, error = text.find("{"), ""
    for _ in range(OBJECTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            error = error or str(problem)
            end = at + 1
        else:
            if isinstance(found, dict) and any(key in found for key in keys):
                best = found
        at = text.find("{", end)
    return best, error


def _why(text: str, error: str) -> str:
    if "{" not in text:
        return "it holds no JSON object."
    if not error:
        return "its JSON object has none of the keys that were asked for."
    cut = " It ends in the middle." if text.rstrip()[-1:] not in "}`" else ""
    return f"it is not valid JSON ({error}).{cut}"


def _said(found: object) -> tuple[Said, ...]:
    items = found if isinstance(found, list) else []
    return tuple(item for item in map(_one, items[:MAX_ITEMS]) if item)


def _one(item: object) -> Said | None:
    if isinstance(item, str):
        text, refs = cut_refs(item)
        return Said(text, refs)
    if isinstance(item, dict):
        text, more = cut_refs(_text(item.get("text")))
        return Said(text, tuple(dict.fromkeys((*_refs(item.get("refs")), *more))))
    return None


def _chosen(found: object, *names: str) -> Iterator[ChosenFile]:
    for item in (found if isinstance(found, list) else [])[:MAX_ITEMS]:
        if isinstance(item, str):
            text, refs = cut_refs(item)
            yield ChosenFile(text, "", refs)
        elif isinstance(item, dict):
            what = next((_text(item[name]) for name in names if name in item), "")
            reason = _text(item.get("reason"))
            yield ChosenFile(what.strip(), reason.strip(), _refs(item.get("refs")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _refs(value: object) -> tuple[int, ...]:
    """Numbers of entries, also as `"#12"` or as one number."""
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


_TRAILING = re.compile(r"[\[(]((?:#\d{1,9}(?:\s*[-–,;]\s*|\s+)?)+)[\])]\.?$")


def cut_refs(text: str) -> tuple[str, tuple[int, ...]]:
    """A sentence and the refs `[#12, #15]` at its end."""
    text = text.strip()
    match = _TRAILING.search(text)
    if match is None:
        return text, ()
    return text[: match.start()].rstrip(), _refs(match[1])
