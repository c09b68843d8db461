"""What `tasuki install` puts into a harness, and what the hooks among it ask of tasuki."""

import os
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from tasuki.files import expand_user, get_data_folder, read_regular_file

WRITTEN_BY = "tasuki install"
"""Mark in every file that tasuki writes, by which it is recognized."""
HOOK_MARK = "tasuki hook"
"""Mark in every command of tasuki's that a harness runs."""
TOOLS_MARK = "TASUKI_INSTALLED"
GONE = "tasuki is not installed any more. To remove its parts, install it again and run: tasuki uninstall HARNESS"
"""What the user reads who hands off after tasuki itself is gone. It stands in a shell command."""
INSTALLED = {TOOLS_MARK: "1"}
"""Environment that marks an entry, such as an MCP server, as tasuki's.

Without it, the entry could not be distinguished from one that the user wrote.
"""

TURN_SCRIPT = Path(__file__).with_name("turn.sh")
FOLDERS = ("TASUKI_DATA", "TASUKI_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
"""Variables that name the folders of tasuki's data and settings."""


class OwnFile(Struct, frozen=True, tag="file"):
    """A whole file that belongs to tasuki.

    A file at this path without the mark is the user's, and is left alone. `what` describes the
    file for people: `the command /handoff`.
    """

    path: str
    content: str
    what: str
    mark: str = WRITTEN_BY


class JsonEntry(Struct, frozen=True, tag="json"):
    """A value in a JSON file that others write to as well; comments in it are allowed and kept.

    `keys` lead from the document to the object or list that holds it, which is created where it
    is missing. With a `name` that is an object and this its member; without, a list and this
    one of its elements. A value whose JSON text holds the `mark` is tasuki's, of whatever
    version.
    """

    path: str
    keys: tuple[str, ...]
    value: Any
    what: str
    name: str = ""
    mark: str = HOOK_MARK
    otherwise: str = ""
    """What the user can do where something else is in its place, as a sentence."""


class TomlTable(Struct, frozen=True, tag="toml"):
    """A table of a TOML file that others write to as well, with the tables below it.

    `body` is its text after the header, and must hold the mark; the text around it is kept.
    """

    path: str
    keys: tuple[str, ...]
    body: str
    what: str
    mark: str = TOOLS_MARK


Addition = OwnFile | JsonEntry | TomlTable


HookKind = Literal["handoff", "turn", "status", "compacting", "summarized", "compacted"]
COMPACTION_KINDS = frozenset(("compacting", "summarized", "compacted"))
"""Kinds of calls around a compaction."""


class HookCall(Struct, frozen=True):
    """What a hook of a harness asks of tasuki.

    handoff: the user typed the command, `text` is exactly what follows it. turn: a turn of the
    agent ended, `text` is what it said last. status: the harness draws its status line. Context
    use comes from the payload, None where it is missing: `used` in percent, `window` in tokens.

    compacting: a summary is about to be made, `text` is what the user asked it to keep.
    summarized: it was made, `text` is the summary. compacted: it took the place of the past, and
    a block can be put behind it; `text` is the summary where the payload has it.
    """

    kind: HookKind
    path: str
    thread_id: str = ""
    cwd: str = ""
    text: str = ""
    used: float | None = None
    window: int | None = None
    event: str = ""
    """The harness's name of the hook, where its answer must repeat it."""
    by_user: bool = False
    """compacting: the user asked for the compaction; it did not begin by itself."""
    is_recorded: bool = False
    """compacted: the thread's file holds the compaction already."""
    can_replace: bool = False
    """A summary by tasuki can take the place of the harness's own."""
    compaction: str = ""
    """compacted: id of the compaction, where the harness has one."""
    in_view: str = ""
    """compacted: what the model has in view besides the summary, where the payload says so."""
    messages: tuple[Any, ...] = ()
    """compacted: a request to the model, where the answer is that request with the block in it.

    The harness keeps no block then: every request needs it again.
    """


class HookAnswer(Struct, frozen=True):
    """What tasuki answers a hook.

    `message` is a sentence for the user, `blocked` whether the prompt stops here, and `context`
    a text for the model. `replaces`: that text is a summary in the place of the harness's own.
    """

    message: str = ""
    blocked: bool = False
    context: str = ""
    replaces: bool = False


class HarnessIntegration(Protocol):
    """What tasuki can add to one harness, and how its hooks speak; with what holds for most."""

    command: str = "/handoff GOAL"
    """How the user hands off inside it."""
    own_commands: tuple[str, ...] = ()
    """Where in a folder of the harness a command of the user's would have the name of tasuki's."""
    notes: tuple[str, ...] = ()
    """What the user has to do after the installation, and what cannot work, as sentences."""

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        """List everything to be added. `tasuki` is the command that runs it, its program a whole path."""
        ...

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        """List what `tasuki install --keep` adds; empty where the harness offers no way."""
        return ()

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        """Parse what the payload of a hook asks for; None for nothing.

        The payload may be anything. A prompt that is not the command asks for nothing, nor does
        the end of a sub-agent's turn.
        """
        ...

    def format_answer(self, call: HookCall, answer: HookAnswer) -> str:
        """Format what the hook prints; empty for nothing. Most have Claude's shape."""
        import json

        if answer.context and call.kind == "compacted":
            output = {"hookEventName": call.event, "additionalContext": answer.context}
            return json.dumps({"hookSpecificOutput": output}, ensure_ascii=False)
        if answer.context or not answer.message:
            return answer.context
        if answer.blocked:
            return json.dumps({"decision": "block", "reason": answer.message})
        return json.dumps({"systemMessage": answer.message})

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        """Find what in the settings keeps tasuki's parts from working in a folder: what, and how to fix it."""
        return ()

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        """List the folders in which a harness that works in `cwd` looks for commands."""
        return ()

    def find_own_command(self, cwd: Path) -> str:
        """Return the path of a command of the user's own by the name of tasuki's; it is left alone."""
        folders = self.list_command_folders(cwd)
        paths = (folder / name for folder in folders for name in self.own_commands)
        return next((str(path) for path in paths if _is_foreign(path)), "")

    def describe_own_command(self) -> tuple[str, ...]:
        """Say whose command by the name of tasuki's is left alone, and what to do then."""
        if not (path := self.find_own_command(Path.cwd())):
            return ()
        name = self.command.removesuffix(" GOAL").replace("tasuki:", "")
        other = "tasuki handoff GOAL, in a terminal" if name in self.command else self.command
        return (f"{name} is your own, from {path}: tasuki leaves it to you. Hand off by: {other}",)

    def find_blockers(self) -> tuple[str, ...]:
        """Find what keeps the installation from working, as `find_obstacles` does."""
        return self.find_obstacles()


def _is_foreign(path: Path) -> bool:
    """Tell whether a file exists that tasuki did not write."""
    try:
        return WRITTEN_BY.encode() not in read_regular_file(path, 100_000)
    except OSError:
        return False


# -- what several harnesses share --------------------------------------------------------

PROMPT_SECONDS = 300
"""Time limit of the hook that drafts a handoff where there is no tmux."""
TURN_SECONDS = 60
"""Time limit of the hook at the end of a turn."""
COMMAND = "the command /handoff"
TOOLS = "tasuki's tools for the agent (MCP)"
SKILL = "a skill: when and how the agent hands off"
COMPACTION_MARK = "tasuki at a compaction"
"""Mark in every file and command that is there for compactions."""
COMPACTION_FILE_MARK = "tasuki install --keep"
"""Mark in the files of plugins that are there for compactions."""
COMPACTION_PURPOSE = "rules and state are kept over compactions"
COMPACTION_SECONDS = 10
"""Time limit of a hook around a compaction."""


@cache
def can_serve_tools() -> bool:
    """Tell whether this tasuki can serve its tools: an entry that could only fail is not installed."""
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def build_tools_server(tasuki: tuple[str, ...]) -> dict[str, Any]:
    """Build the MCP server's entry in the shape that most harnesses share.

    Its environment holds the mark and the variables that name tasuki's folders: some harnesses
    start it without the user's own.
    """
    named = {name: os.environ.get(name, "") for name in FOLDERS}
    folders = {n: os.path.abspath(expand_user(v, n)) for n, v in named.items() if v}
    return {"command": tasuki[0], "args": [*tasuki[1:], "mcp"], "env": INSTALLED | folders}


def build_tools_entries(
    path: str, keys: tuple[str, ...], server: Mapping[str, Any]
) -> list[Addition]:
    """Build the MCP server as a member of the object that `keys` lead to; empty where it cannot run."""
    entry = JsonEntry(path, keys, server, TOOLS, "tasuki", TOOLS_MARK)
    return [entry] if can_serve_tools() else []


def build_prompt_hook(
    tasuki: tuple[str, ...],
    harness: str,
    command: str,
    patterns: tuple[str, ...] = (),
    *,
    tells: bool = True,
) -> str:
    """Build the shell command for the hook of every prompt: it starts tasuki only for our command.

    Python takes ten times as long to start as the shell takes to look. tasuki checks again a
    prompt that only looks like our command. A prompt that is our command and does not look like
    it reaches the model, whose command file says what to do then; so does every prompt once
    tasuki is gone, which the user is told where the harness `tells` them such messages. `patterns`
    are further shell patterns.
    """
    begins = [f"""*'"prompt":{gap}"{command}'*""" for gap in ("", " ")]
    looks = "|".join((*begins, *patterns))
    call = f'{{ printf %s "$p" | {shlex.join((*tasuki, "hook", harness))}; }} 2>/dev/null'
    gone = shlex.quote(f'{{"systemMessage": "{GONE.replace("HARNESS", harness)}"}}')
    otherwise = f"case $? in 126|127) echo {gone};; esac" if tells else ":"
    return f": {HOOK_MARK}; p=$(cat); case $p in {looks}) {call} || {otherwise};; esac"


def build_turn_call(tasuki: tuple[str, ...], command: str, harness: str) -> str:
    """Build the shell command of a turn's end (`hook`) or a status line (`status`).

    It starts tasuki only where the shell cannot answer; it is silent once tasuki is gone. What is
    published for many machines, with tasuki on the PATH, knows no script.
    """
    if not os.path.isabs(tasuki[0]):
        return f": {HOOK_MARK}; {shlex.join((*tasuki, command, harness))} 2>/dev/null || :"
    script = shlex.quote(str(TURN_SCRIPT))
    # A path that ends with `/tasuki` would be taken for a program of tasuki's.
    words = shlex.join((command, harness, f"{get_data_folder()}/", *tasuki))
    call = f"{shlex.join((*tasuki, command, harness))} 2>/dev/null || :"
    return f": {HOOK_MARK}; if [ -r {script} ]; then set -- {words}; . {script}; else {call}; fi"


def build_compaction_hook(
    tasuki: tuple[str, ...], harness: str, check: str = "", form: str = "%s"
) -> str:
    """Build the shell command for the hooks around a compaction; silent once tasuki is gone.

    It never fails the harness, and prints nothing but tasuki's answer. With a `check`, a shell
    command that reads the payload in `$p`, tasuki is started only where that succeeds, and gets
    the payload in a `form` of printf.
    """
    call = f'"$t" {shlex.join((*tasuki[1:], "hook", harness))} 2>/dev/null || :'
    if check:
        call = f'p=$(cat); if {check}; then printf {shlex.quote(form)} "$p" | {call}; fi'
    return f': {COMPACTION_MARK}; t={shlex.quote(tasuki[0])}; if [ -x "$t" ]; then {call}; fi'


def parse_goal(prompt: object, command: str) -> str | None:
    """Return exactly what follows the command at the start of a prompt; None for another prompt."""
    words = prompt.lstrip() if isinstance(prompt, str) else ""
    rest = words.removeprefix(command)
    return None if rest == words or rest[:1].strip() else rest[1:]


def format_plugin_answer(call: HookCall, answer: HookAnswer) -> str:
    """Format an answer for a plugin: the sentence; around a compaction an object with one text."""
    import json

    if call.kind not in COMPACTION_KINDS:
        return answer.message
    if not answer.context:
        return ""
    name = "summary" if answer.replaces else "block" if call.kind == "compacted" else "keep"
    return json.dumps({name: answer.context})


def copy_asset(folder: Path, name: str, asset: Path, purpose: str) -> OwnFile:
    """Build a file of our own in a folder, with the content of one in this package."""
    return OwnFile(str(folder / name), asset.read_text(encoding="utf-8"), purpose)


def build_script(
    path: Path,
    asset: Path,
    constants: Mapping[str, tuple[object, object]],
    purpose: str,
    mark: str = WRITTEN_BY,
) -> OwnFile:
    """Build a file of our own from a script of this package, with other values of its constants.

    `constants` maps a declaration such as `HOOK: string` to the value in the file and the new one.
    """
    import json

    source = asset.read_text(encoding="utf-8")
    for declaration, (default, value) in constants.items():
        line = f"const {declaration} = {json.dumps(default)};"
        assert line in source, line
        source = source.replace(line, f"const {declaration} = {json.dumps(value)};")
    return OwnFile(str(path), source, purpose, mark)


def read_settings(path: Path) -> str:
    """Read the text of a settings file; empty where it cannot be read."""
    try:
        return read_regular_file(path).decode()
    except (OSError, ValueError):
        return ""


def read_setting(path: Path, name: str) -> object:
    """Read a setting of the user from a JSON file; None where it cannot be read."""
    from tasuki.config import json_text

    try:
        node = json_text.find_value(content := read_settings(path), (name,))
    except json_text.NotJson:
        return None
    return json_text.read_value(content, node) if node else None


_UNUSUAL = {
    "comments": "comments", "commas": "commas before a closing bracket", "mark": "the byte order mark",
}  # fmt: skip


def find_rejected_json(path: Path, does: str, accepted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Find why a program rejects a JSON file that tasuki could read, in two sentences.

    `does` says what the program does then; `accepted` are words of `list_unusual`.
    """
    from tasuki.config import json_text

    found = json_text.list_unusual(read_settings(path))
    what = " and ".join(_UNUSUAL[name] for name in found if name not in accepted)
    return (f"{does} {path}, because of {what} in it. Remove them from that file.",) if what else ()


def parse_percent(value: object) -> float | None:
    """Return a percentage from a payload, or None where it is none: JSON may hold NaN and 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1000 else None


def parse_tokens(value: object) -> int | None:
    """Return a number of tokens from a payload, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        return None
    return value


def get_text(payload: Mapping[str, Any], key: str) -> str:
    """Return a text from a payload, empty where there is none."""
    value = payload.get(key)
    return value if isinstance(value, str) else ""
