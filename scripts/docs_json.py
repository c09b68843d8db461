"""The shapes of what `--json` prints: the tables of docs/json.md, and the check of a real document.

A shape is a type, `[shape]` for a list, `{"key": shape}` for an object, `{NAME: shape}` for one
whose keys are names, or a tuple of shapes where it may be one of several.
"""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, defstruct

from tasuki.cli.output import JSON_VERSION
from tasuki.config.settings import SettingsFile
from tasuki.doctor import DoctorReport
from tasuki.draft.quality.score import DocumentQuality, QualityShare
from tasuki.model import Entry, Handoff, HandoffEvent, Predecessor, ThreadHead
from tasuki.threads.blocks import IndexedThread
from tasuki.threads.passages import Passage
from tasuki.threads.question import AnswerSentence
from tasuki.vault.lineage import Successor
from tasuki.vault.store import State

NAME = "NAME"
Shape = Any
Fields = dict[str, Shape]


def list_fields(struct: type[Struct], *names: str) -> Fields:
    """The fields of a struct, or the named ones, each with its shape."""
    hints = get_type_hints(struct)
    return {name: hints[name] for name in names or struct.__struct_fields__}


def name_shape(name: str, fields: Fields) -> type[Struct]:
    """A record of its own on the page, for a shape that is used more than once."""
    return defstruct(name, list(fields.items()))


Document = name_shape("Document", {"ref": int, "path": str, "characters": int})
ReadThread = name_shape("ReadThread", {
    **list_fields(IndexedThread, "harness", "id", "path", "cwd", "name"),
    "started": str, "updated": str, "entries": int, "documents": list[Document],
})  # fmt: skip
READ: Fields = {
    "label": str, "handoff": str | None, "thread": ReadThread | None, "problem": str, "note": str,
}  # fmt: skip
LISTED: Fields = {
    "id": str, "created": str, "state": State, "goal": str, "to": str, "predecessor": Predecessor,
    "tokens": int, "parent": str,
}  # fmt: skip
Share = name_shape("Share", {**list_fields(QualityShare), "percent": int})
SHAPES: dict[str, Fields] = {
    "handoff": {
        "id": str, "stored": bool, "goal": str, "tokens": int, "brief": str, "authorship": [str],
        "warnings": [str], "notes": [str], "handoff": Handoff,
    },
    "start --prepare": {"id": str, "thread": str, "text": str},
    "threads": {"threads": [ThreadHead]},
    "threads --kept": {"copies": [{
        **list_fields(ThreadHead, "id", "harness", "path", "cwd", "name", "first_words", "modified", "bytes"),
        "kept": float, "kept_bytes": int, "file": str, "original_exists": bool,
    }]},
    "threads --forget": {"forgotten": [str]},
    "handoffs": {"handoffs": [LISTED]},
    "handoffs find": {
        "handoffs": [{**LISTED, "lines": [str]}],
        "documents?": [{"persona": str, "path": str, "created": str, "handoff": str, "lines": [str]}],
    },
    "show": {"handoff": Handoff, "events": [HandoffEvent], "successor": Successor | None},
    "find": {
        "threads": [{"label": str, "score": float, "thread": IndexedThread, "lines": [Passage],
                     "problem": str, "note": str}],
        "problems": [str],
    },
    "read": {**READ, "entries": [{
        **list_fields(Entry, "ref", "kind", "at", "text", "tool", "compacted"),
        "origin": (get_type_hints(Entry)["origin"], None), "kept": bool,
    }]},
    "read QUESTION": {"question": str, "threads": [{**READ, "passages": [Passage]}]},
    "read QUESTION --author model": {
        "question": str, "answer": [AnswerSentence], "unanswered": str, "dropped": [[str]],
    },
    "check": {
        "file": str, "thread": list_fields(IndexedThread, "harness", "id", "path"),
        **list_fields(DocumentQuality), "sections": Share, "facts": Share, "claims": Share,
    },
    "doctor": {"broken": bool, **list_fields(DoctorReport)},
    "config": {
        "settings": {NAME: {"value": object, "source": str}}, "problems": [str],
        "files": [SettingsFile], "model": str,
    },
}  # fmt: skip
"""What each command prints behind `version`; a key with `?` is left out where it is empty."""
FLEET = {
    "agent": "agent start, show, adopt, mute; template start", "agents": "agent list, recover",
    "answered": "agent answer", "changes": "agent changes", "handoff": "agent handoff, fork, move",
    "handoffs": "handoffs --agents", "host": "host retire", "host, role, file": "host join", "hosts": "host list",
    "lessons": "persona lessons", "move": "agent handoff --dry-run", "persona": "persona add, show, edit",
    "personas": "persona list", "question": "agent answer", "queue": "persona queue",
    "sent": "agent send, resume", "sessions": "dashboard --sessions", "template": "template add",
    "templates": "template list", "token": "host token",
}  # fmt: skip
"""The key under which a command of the fleet prints what its server answers."""


def describe_shape(shape: Shape, structs: dict[str, type[Struct]]) -> str:
    """A shape in words for the page; structs are named, and collected."""
    if isinstance(shape, tuple):
        return "/".join(describe_shape(one, structs) for one in shape)
    if isinstance(shape, list):
        return f"[{describe_shape(shape[0], structs)}]"
    if isinstance(shape, dict):
        said = {key: describe_shape(one, structs) for key, one in shape.items()}
        keys = (key if one == "text" else f"{key}:{one}" for key, one in said.items())
        return "{" + ", ".join(keys) + "}"
    if isinstance(shape, type) and issubclass(shape, Struct):
        structs[shape.__name__] = shape
        return f"*{shape.__name__}*"
    origin, parts = get_origin(shape), get_args(shape)
    if origin in (Union, UnionType):
        return describe_shape(parts, structs)
    if origin is Literal:
        return "text"
    if origin in (tuple, list):
        return f"[{describe_shape(parts[0], structs)}]"
    if origin is dict:
        return f"{{{NAME}:{describe_shape(parts[1], structs)}}}"
    simple = {str: "text", int: "number", float: "number", bool: "bool", object: "any"}
    return "null" if shape in (None, NoneType) else simple[shape]


def find_differences(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """Where a value of a document is not what its shape says: a path and why."""
    parts = get_args(shape)
    if isinstance(shape, type) and issubclass(shape, Struct):
        shape = list_fields(shape)
    if isinstance(shape, tuple) or get_origin(shape) in (Union, UnionType):
        found = [list(find_differences(value, one, path)) for one in parts or shape]
        yield from min(found, key=len)
    elif isinstance(shape, list) or get_origin(shape) in (tuple, list):
        inner = shape[0] if isinstance(shape, list) else parts[0]
        if not isinstance(value, list):
            yield f"{path} is no list"
        for one in value if isinstance(value, list) else ():
            yield from find_differences(one, inner, f"{path}[]")
    elif isinstance(shape, dict) or get_origin(shape) is dict:
        shape = shape if isinstance(shape, dict) else {NAME: parts[1]}
        yield from _find_in_object(value, shape, path)
    elif get_origin(shape) is Literal:
        if value not in parts:
            yield f"{path} is {value!r}"
    elif shape is float:
        if not isinstance(value, int | float):
            yield f"{path} is no number"
    elif not isinstance(value, NoneType if shape is None else shape):
        yield f"{path} is {type(value).__name__}"


def _find_in_object(value: Any, shape: Fields, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is no object"
        return
    if list(shape) == [NAME]:
        shape = dict.fromkeys(value, shape[NAME])
    known = {key.rstrip("?"): one for key, one in shape.items()}
    needed = {key for key in shape if not key.endswith("?")}
    for key in sorted((needed - value.keys()) | (value.keys() - known.keys())):
        yield f"{path}.{key} is {'not documented' if key in value else 'missing'}"
    for key in known.keys() & value.keys():
        yield from find_differences(value[key], known[key], f"{path}.{key}")


def with_shapes(page: str) -> str:
    """The page with its tables refreshed."""
    structs: dict[str, type[Struct]] = {}
    rows = [f"`version` is {JSON_VERSION}.", "", "| command | keys after `version` |", "|---|---|"]
    rows += [f"| `{name}` | {describe_shape(shape, structs)[1:-1]} |" for name, shape in SHAPES.items()]  # fmt: skip
    rows += ["", "| record | its keys |", "|---|---|"]
    done: set[str] = set()
    while waiting := [name for name in structs if name not in done]:
        for name in waiting:
            done.add(name)
            rows.append(f"| *{name}* | {describe_shape(list_fields(structs[name]), structs)[1:-1]} |")  # fmt: skip
    rows += ["", "| key | commands of the fleet |", "|---|---|"]
    rows += [f"| `{key}` | {commands} |" for key, commands in sorted(FLEET.items())]
    before, _, rest = page.partition("<!-- shapes -->\n")
    end = "<!-- /shapes -->"
    return f"{before}<!-- shapes -->\n" + "\n".join(rows) + f"\n{end}{rest.partition(end)[2]}"
