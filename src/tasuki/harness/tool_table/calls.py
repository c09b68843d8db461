"""What calls and their results do beside the conversation: todos, questions, skills, background work."""

import re
from itertools import islice

from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.harness.reading.answers import OfferedQuestion
from tasuki.harness.reading.jsonl import clip
from tasuki.harness.reading.unread import add_output, put_output
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.results import find_status, is_worded, parse_result
from tasuki.model import Background, Entry, Todo, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

_CONTROLS_AGENT = frozenset(
    "waitagent closeagent readagent writeagent listagents sendinput followuptask resumeagent interruptagent "
    "agentoutput".split()
)
"""Tools that start no sub-agent, and speak with one that runs."""
_JOB_FIELDS = ("sessionid", "shellid", "bashid", "taskid", "processid", "pid", "id")
_STATUS = compile_pattern(r"<status>(\w+)</status>")
_CODE = compile_pattern(r"<exit_code>(-?\d+)</exit_code>")
_SHOWN = compile_pattern(r"<(output|stdout|stderr)>\n?(.*?)\n?</\1>", re.DOTALL)
_STOPS = ("stop", "kill", "taskstop")
_WHERE = compile_pattern(
    r"h(?<!\wh)ttps?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d{2,5})?[^\s\"'<>)\]]*"
    r"|p(?<!\wp)ort[ :=]{1,2}\d{2,5}\b|P(?<!\wP)ORT[ :=]{1,2}\d{2,5}\b"
)
_LOG = compile_pattern(
    r"(?:output is being written to: |Output is being written to: |log(?: file)?: |Log(?: file)?: "
    r"|<output-file>)([^\s<>]+[^\s<>.,])"
)
"""Each choice begins with a letter of its own: so they are searched by these, five times as fast."""
MOST_PLACES = 3
LAUNCHED = (
    "Async agent launched",
    "Workflow launched in background",
    "Command running in background",
    "Monitor started (task ",
)
"""Beginnings of results of what goes on in the background."""
SERVER = compile_pattern(
    r"\b(?:http\.server|runserver|uvicorn|gunicorn|nodemon|vite|(?:flask|next|astro|hugo|wrangler|nuxt) (?:run|dev|server|start)"
    r"|(?:npm|pnpm|yarn|bun|deno|make|just|mise)(?: run| task)? (?:dev|start|serve|preview)|rails s(?:erver)?|compose up)\b"
)
"""Commands that serve until somebody ends them."""
_DETACHED = compile_pattern(r"(?m)(?:^|[^&>|<])&(?=\s|$|\))(?!.*\b(?:wait|kill)\b)")
_KILLS = compile_pattern(r"\b(?:p?kill|killall|fuser -k|taskkill|Stop-Process)\b")
_REDIRECTED = compile_pattern(r"(?<![\d&])(?:1|&)?>{1,2} ?([^\s;&|]+)")


class BackgroundLog:
    """Sub-agents and background commands as they start and end while a thread is read."""

    def __init__(self) -> None:
        self._items: dict[str, Background] = {}
        self._aliases: dict[str, str] = {}
        self._calls: dict[str, ToolCall] = {}

    def add_alias(self, id: str, alias: str) -> None:
        """Record that a running item has another id from now on; its end may carry either."""
        self._aliases[alias] = id

    def find_item(self, id: str) -> Background | None:
        """Return what has this id, also by another of its ids."""
        return self._items.get(self._aliases.get(id, id))

    def record_start(
        self, id: str, kind: str, label: str, ref: int, call: ToolCall | None = None
    ) -> None:
        """Record that something began to run in the background; `call` is the command that did."""
        if id and id not in self._items:
            label = cut_text(" ".join(label.split()), 200)
            of = "agent" if kind == "agent" else "command"
            self._items[id] = Background(id, of, label, "running", ref)  # type: ignore[arg-type]
            if call:
                self._calls[id] = call

    def record_output(self, id: str, text: str, keep: int = 0) -> None:
        """Record where a command serves and logs, as far as it was printed.

        With `keep`, the text is more output of the command, and is added to its call.
        """
        item = self.find_item(id) if text else None
        if item is None or item.kind == "agent":
            return
        found = (place.rstrip("/.,") for p in (_WHERE, _LOG) for place in p.findall(text[:20_000]))
        places = tuple(dict.fromkeys((*item.places, *found)))[:MOST_PLACES]
        self._items[item.id] = replace(item, places=places)
        if keep and (call := self._calls.get(item.id)):
            add_output(call, text, keep)

    def record_end(self, id: str, failed: bool = False, code: int | None = None) -> None:
        """Record that it ended, and how: `code` is the exit code of a command."""
        if item := self.find_item(id):
            failed = bool(code) if code is not None else failed
            self._items[item.id] = replace(item, state="failed" if failed else "done")
            if (call := self._calls.get(item.id)) and call.status in ("running", "unknown"):
                put(call, "status", "error" if failed else "ok" if code == 0 else "unknown")
                put(call, "exit_code", code)
                if call.output.startswith(LAUNCHED):  # These words are not the command's.
                    put_output(call, call.output.partition("\n")[2], len(call.output))

    def record_state(self, id: str, *, goes_on: bool) -> None:
        """Record that it goes on, or that a poll showed its output and not whether it ended."""
        if (item := self.find_item(id)) and item.state in ("running", "unknown"):
            state: ToolStatus = "running" if goes_on else "unknown"
            self._items[item.id] = replace(item, state=state)
            if (call := self._calls.get(item.id)) and call.status in ("running", "unknown"):
                put(call, "status", state)

    def rename(self, id: str, name: str) -> None:
        """Record the name under which something that runs is known; without one it never began."""
        item = self._items.pop(id, None)
        if item and name:
            self._items[name] = replace(item, id=name, state="running")

    def record_stop(self, id: str) -> None:
        """Record that the agent or the user ended it before its own end."""
        if item := self.find_item(id):
            self._items[item.id] = replace(item, state="done")
            if (call := self._calls.get(item.id)) and call.status == "running":
                put(call, "status", "aborted")

    def list_items(self) -> tuple[Background, ...]:
        """Return all of them, in the order they began."""
        return tuple(self._items.values())


_CREATED = compile_pattern(r"\ATask #(\w+) created")
_LISTED = compile_pattern(r"(?m)^#(\w+) \[(\w+)\] (.+?)(?: \[blocked by [^\]\n]*\])?$")


class TaskList:
    """The todo list of tools that add and change one item each, by the ids that the program gives."""

    def __init__(self) -> None:
        self._tasks: dict[str, Todo] = {}
        """By the call that added it."""
        self._calls: dict[str, str] = {}
        """That call, by the id that its result names."""

    def update(self, call: ToolCall, given: tools.ToolInput) -> tuple[Todo, ...] | None:
        """Return the list after a call; that of the call itself where it states it whole."""
        plain = tools.find_tool(call.name).plain
        if plain not in ("taskcreate", "taskupdate"):
            return call.todos
        subject, status = tools.get_text(given, "subject"), tools.get_text(given, "status")
        if plain == "taskcreate":
            self._tasks[call.id] = Todo(text=subject, status="pending")
        elif task := self._tasks.get(key := self._find_key(tools.get_text(given, "taskid", "id"))):
            state = tools.parse_todo_status(status) if status else task.status
            self._tasks[key] = Todo(text=subject or task.text, status=state)
        return tuple(self._tasks.values())

    def _find_key(self, id: str) -> str:
        """Find the call that added an item; without ids in the results they are counted."""
        if self._calls or not id.isdecimal():
            return self._calls.get(id, "")
        return next(islice(self._tasks, int(id) - 1, None), "") if id != "0" else ""

    def read_result(self, call: ToolCall, output: str) -> None:
        """Take the id of an added item from the result of its call, or the list that it prints."""
        if call.id in self._tasks and (named := _CREATED.match(output)):
            self._calls[named[1]] = call.id
        elif tools.find_tool(call.name).plain == "tasklist" and (found := _LISTED.findall(output)):
            found.sort(key=lambda item: (len(item[0]), item[0]))
            self._calls = {id: id for id, _, _ in found}
            self._tasks = {
                id: Todo(text, tools.parse_todo_status(state)) for id, state, text in found
            }
            put(call, "todos", tuple(self._tasks.values()))


def build_user_command(
    id: str, command: str, output: str, keep: int, code: int | None, status: ToolStatus = "ok"
) -> ToolCall:
    """Build the call of a command that the user ran in the program."""
    ended = "error" if code and status == "ok" else status
    kept, size = clip(output, keep), len(output)
    return ToolCall(
        id, "!", "shell", command, output=kept, output_size=size, status=ended, exit_code=code
    )


def _leaves_behind(command: str) -> bool:
    if "&" not in command:
        return False
    return command[-1] == "&" or "&\n" in command or command.count("& ") > command.count("&& ")


class CallLog:
    """The calls of a thread; results are joined to them as they come in.

    Entries are frozen everywhere else: only here and in the readers results are put into calls.
    """

    all_worded = False
    """Its records never say how a call ended: only the words of the results do."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        """Characters of each output that are kept."""
        self.background = BackgroundLog()
        self.questions: dict[str, list[OfferedQuestion]] = {}
        self.skills: list[str] = []
        self.names: dict[str, None] = {}
        """Every tool that was called, in order."""
        self.entries: list[Entry] = []
        """Those of the thread, among them the calls."""
        self.calls: dict[str, Entry] = {}
        self.open: dict[str, ToolCall] = {}
        """Calls that have no result yet."""
        self.reported: set[str] = set()
        """Calls whose sub-agents have records of their own, also of their ends."""
        self._tasks = TaskList()
        self._detached: list[str] = []
        self._jobs: dict[str, str] = {}
        """The background jobs that calls ask about or end."""

    def add(self, entry: Entry, given: tools.ToolInput) -> None:
        """Add a call; its result is still to come."""
        if (call := entry.tool) is not None:
            self.calls[call.id], self.open[call.id] = entry, call
            self.note_call(call, given, entry.ref)

    def note_call(self, call: ToolCall, given: tools.ToolInput, ref: int) -> None:
        """Note what a call does beside the conversation."""
        kind = call.kind
        self.names[call.name] = None
        if kind == "shell":
            if "kill" in call.command or _leaves_behind(call.command):
                self._note_detached(call, ref)
        elif kind == "todo":
            put(call, "todos", self._tasks.update(call, given))
        elif kind == "ask" and tools.is_own_tool(call.name):
            self.questions[call.id] = tools.list_questions(given)
        elif kind == "skill" and call.detail:
            self.skills.append(call.detail)
        elif kind == "agent" and tools.find_tool(call.name).plain not in _CONTROLS_AGENT:
            self.background.record_start(call.id, "agent", call.detail or call.name, ref)
        elif kind == "background":
            inner = tools.list_nested_calls(tools.find_tool(call.name), given)
            given = inner[0][1] if len(inner) == 1 else given
            numbers = (str(given[f]) for f in _JOB_FIELDS if isinstance(given.get(f), int))
            self._jobs[call.id] = tools.get_text(given, *_JOB_FIELDS) or next(numbers, "")

    def _note_detached(self, call: ToolCall, ref: int) -> None:
        """Note a server that a shell leaves behind (`&`); whatever ends processes may end it."""
        command = call.command.replace("&&", ";")
        if _KILLS.search(command):
            for id in self._detached:
                self.background.record_stop(id)
            self._detached.clear()
        elif _DETACHED.search(command) and SERVER.search(command):
            self._detached.append(id := f"{call.id}&")
            self.background.record_start(id, "command", command, ref)
            log = _REDIRECTED.search(command)
            self.background.record_output(id, f"{command}\nLog: {log[1]}" if log else command)

    def finish(
        self,
        call: ToolCall,
        output: str,
        status: ToolStatus,
        code: int | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """Put a result into its call; where only its words show how it ended, these count.

        `is_known`: the record says how it ended, whatever its words are.
        """
        self.open.pop(call.id, None)
        if not is_known:
            status, code, output = self.judge(call, output, status, code)
        size = len(output)
        put(call, "output", output if size <= self.keep else clip(output, self.keep))
        put(call, "output_size", size)
        put(call, "status", status)
        put(call, "exit_code", code)
        self.note_result(call, output)

    def judge(
        self, call: ToolCall, output: str, status: ToolStatus, code: int | None
    ) -> tuple[ToolStatus, int | None, str]:
        """Return how a call ended, and its output, by its words where its record says too little."""
        needs_words = self.all_worded or is_worded(call.name)
        if not (needs_words or call.name == "shell") or status not in ("ok", "unknown"):
            return status, code, output
        worded = parse_result(output)
        if worded.code is None and not needs_words:  # `shell` is Codex's, and may be anybody's.
            return status, code, output
        if worded.code is not None or (call.kind == "shell" and status == "ok"):
            code = worded.code
        if worded.session and code is None and call.kind == "shell":
            return self.start_job(call, worded.session), None, worded.output
        if worded.session and code is None and call.kind == "background":
            return "running", None, worded.output  # What it asked about goes on.
        if call.kind != "shell" and output.startswith("Script failed"):
            return "error", code, worded.output
        return find_status(call.kind, code, worded.output), code, worded.output

    def start_job(self, call: ToolCall, session: str) -> ToolStatus:
        """Note that the command of a call goes on in the background; return how the call is then."""
        ref = self.calls[call.id].ref
        self.background.record_start(session, "command", call.command, ref, call)
        put(call, "background", session)
        return "running"

    def note_result(self, call: ToolCall, output: str) -> None:
        """Note what the result of a call says of todos and of background work."""
        if call.kind == "shell":
            detached = f"{call.id}&"
            self.background.record_output(call.background or detached, output)
            if call.status in ("error", "refused") and detached in self._detached:
                self.background.record_end(detached, failed=True)
        elif call.kind == "todo":
            self._tasks.read_result(call, output)
        elif call.kind == "background" and call.status != "refused":
            job = self._jobs.get(call.id, "")
            if not tools.find_tool(call.name).plain.startswith(_STOPS):
                self._read_job(call, job, output)
            elif call.status == "ok":
                self.background.record_stop(job)
        elif call.kind == "agent" and not call.background and call.status != "running":
            self._end_agent(call, failed=call.status != "ok")

    def _read_job(self, call: ToolCall, job: str, output: str) -> None:
        """Read what a call printed of a job in the background, and whether it ended."""
        status, tagged = _STATUS.search(output), _CODE.search(output)
        code = int(tagged[1]) if tagged else call.exit_code
        shown = "\n".join(text for _, text in _SHOWN.findall(output))
        if call.status != "error" or code is not None:
            shown = output if is_worded(call.name) else shown
            self.background.record_output(job, shown, self.keep)
        if code is not None or (status and status[1] != "running"):
            self.background.record_end(job, status is None or status[1] != "completed", code)
        elif is_worded(call.name):
            self.background.record_state(job, goes_on=call.status == "running")
            if call.status == "running":
                put(call, "status", "ok")  # The poll itself has ended.

    def settle(self, status: ToolStatus) -> None:
        """Settle open calls when the conversation goes on: they will never get a result."""
        for call in self.open.values():
            put(call, "status", status)
            self._end_agent(call, failed=True)
        self.open.clear()

    def _end_agent(self, call: ToolCall, *, failed: bool) -> None:
        if call.id not in self.reported:
            self.background.record_end(call.id, failed=failed)
