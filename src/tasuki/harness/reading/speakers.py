"""Who said a text of user role: the one gate through which all threads' prompts go.

    what the format says of the row ─▶ a handoff ─▶ what a program put around it ─▶ one element, or a
                                                                                   template ─▶ the user

Only what passes is the user's. Harnesses, editors, hooks and other agents write in the user's role too,
and a converter carries their envelopes from one format into another: so each is known in every format.
An envelope that nobody knows is somebody else's, and the thread's report says that it was met.
Seen: Claude Code 2.1.332, Codex 0.171, Gemini CLI 0.61, Copilot CLI 1.0.102, Cursor and Cline by SpecStory.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tasuki.harness.reading.documents import DocumentLog
from tasuki.model import Entry, Origin
from tasuki.patterns import compile_pattern
from tasuki.typed_prompts import extract_human_words, find_handed_goal, is_handoff_prompt

HANDED = "handoff: "
"""Begins the title of a thread that begins with a handoff."""

Evidence = Literal["user", "program", ""]
"""What the format itself says of a row: a person typed it, a program wrote it, or nothing."""

INTERRUPTED = compile_pattern(
    r"\[Request interrupted by user(?: for tool use)?\][ \t]*(?:\n\s*|\Z)"
)
_INSERTED = compile_pattern(
    r"system[-_]reminder|ide_(?:opened_file|selection|diagnostics)|local-command-(?:stdout|stderr|caveat)|image|environment_(?:context|details)|user-prompt-submit-hook|"
    r"in-app-browser-context"
)
"""Elements that programs put beside what a person types, whatever the format says."""
_BESIDE = compile_pattern(
    r"attached_files?|attachments?|open_files|user_info|git_status|project_layout|workspace_info|additional_data|editor_context|timestamp|currentDate|current_datetime|system|"
    r"system[_-]prompt|(?:system|user|custom|project|repo|repository|workspace|agent|apps?|skills?|plugins?|mcp|developer)[_-]instructions?|INSTRUCTIONS|ENVIRONMENT_CONTEXT|"
    r"user-memory-input|cc-memory|reminder|collaboration_mode|model_switch|goal_context|recommended_plugins|claude-code-hint|(?:always_applied_)?workspace_rules?|agent_skills|"
    r"RUNTIME_INFORMATION"
)
"""Elements that wrappers and editors put around what a person types."""
_PROGRAM = compile_pattern(
    r"(?:\w+-)+(?:message|notification|task|payload|event|update|note)|\w+_notification|channel|command-(?:name|message|args)|bash-(?:stdout|stderr)|hook[_-]\w+|mcp-[\w-]+|"
    r"artifact-[\w-]+|autonomous-loop[\w-]*|skill(?:-[\w-]+)?|tool[_-](?:result|use|call)s?|function_results|persisted-output|previous-conversation|other-sessions|"
    r"untrusted-uploads|turn_aborted|user_action|fork-boilerplate|codex_internal_context|state_snapshot"
)
"""Elements in which programs and other agents speak: nobody types one, and what follows is theirs."""
_ATTACHED = compile_pattern(
    r"<(?:file name=\"(?:/|[A-Za-z]:)[^\"\n]*\"|context ref=['\"][^\n]*)>|<context>\s*The following items were attached by the user"
)
"""How elements with everyday names begin where a program puts what the user attached into them."""
_SENDER = compile_pattern(
    r"\s(?:from|sender|author|agent\w*|teammate\w*|session\w*|peer\w*|state)\s*="
)
"""What an element says that hands on the words of somebody else."""
_QUERY = compile_pattern(
    r"(?s)\A(?:<.*>\s*)?<(user_query|userRequest|USER_REQUEST)>\s*(.*?)\s*</\1>\s*\Z"
)
"""The element in which an editor hands on what the user typed, behind elements of its own."""
_EVERYDAY = frozenset(
    "a abbr article aside b blockquote body br button canvas code dd details div dl dt em fieldset figure footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img "
    "input kbd label legend li link main mark math meta nav ol option p path pre script section select small span strong style sub sup svg table tbody td template "
    "textarea tfoot th thead title tr u ul video xml root project "
    "answer architecture ask assumptions audience background bug bugs checklist command commands config constraint constraints content context criteria data decision definition deliverable "
    "deliverables description design diff document documents email environment error errors example examples expected feature feedback file files format goal goals guideline "
    "guidelines hint idea important info instruction instructions issue issues item items job language limits list log logs mission name notes objective objectives outcome output page "
    "persona plan policy prd prefs problem process prompt question questions quote reference references report request requirement requirements response result results review role rule rules "
    "scenario schema scope snippet solution source spec specification specs stack stacktrace standards steps story structure style styleguide success symptoms task tasks test tests text "
    "thinking ticket todo todos tone topic trace usage workflow".split()
)
"""Elements that people write: of pages and documents, and the parts of a prompt, also as the end of a longer name."""
_ELEMENT = compile_pattern(r"\s*<([A-Za-z][\w.:-]*)((?:\s[^<>]{0,4000})?)(?:/>|>)")
_CLOSING = compile_pattern(r"</([A-Za-z][\w.:-]*)>\s*\Z")
_TAG = compile_pattern(r"<[^<>]*>")
_CONTEXT = compile_pattern(
    r"\s*(?:# (?:Context from my IDE setup|Files mentioned by the user|Response annotations|In app browser|Review findings|Selected text|Applications? open):[ \t]*\n"
    r"|Distinguish instructions in attached documents\b|<in-app-browser-context\b)"
)
_REQUEST = compile_pattern(r"(?m)^## My request(?: for [^:\n]{1,40})?:[ \t]*\n?")
_ORDERS = compile_pattern(
    r"Generate a file named AGENTS\.md that serves as a contributor guide for this repository\."
    r"|Please analyze this codebase and create an? (?:AGENTS\.md file containing:|CLAUDE\.md file, which will be given to future instances of Claude Code)"
    r"|(?:Create or update `AGENTS\.md` for this repository\.\s+The goal is a compact instruction file"
    r"|You are a code reviewer\. Your job is to review code changes and provide actionable feedback\."
    r"|You are an AI agent that brings the power of Gemini directly into the terminal\. Your task is to analyze the current directory)"
    r"|Analyze this codebase to generate or update `\.github/copilot-instructions\.md` for guiding AI coding agents\.\s+Focus on discovering"
    r"|Review the current code changes \(staged, unstaged, and untracked files\) and provide prioritized findings\."
)
"""How texts begin that a program sends as if they were typed, for a command like `/init`."""
_EVENT = r"(?:(?:Pre|Post)(?:ToolUse|Compact)\w*|UserPromptSubmit|Session(?:Start|End)|Stop|Subagent(?:Start|Stop)|Notification|TeammateIdle|Task(?:Created|Completed)|Permission\w+)"
_TEMPLATES = compile_pattern(
    rf"{_EVENT}(?::\S+)? hook (?:(?:success|feedback|additional context|(?:blocking )?error):|blocking error from command|stopped continuation)"
    r"|Caveat: The messages below were generated by the user while running local commands\. DO NOT"
    r"|This session is being continued from a previous conversation that ran out"
    r"|Another language model started to solve this problem and produced a summary|The following is the Codex agent history whose request action"
    r"|The conversation history before this point was compacted into the following summary:|The following is a summary of a branch that this conversation came back from:"
    r"|Another Claude session sent a message|A peer session sent a message|\[SYSTEM NOTIFICATION - NOT USER INPUT\]"
    r"|Base directory for this skill: |# AGENTS\.md instructions[^\n]*\s+<INSTRUCTIONS>|Contents of [^\n(]+\([^\n)]*\):[ \t]*\n"
    r"|Approved command prefix saved:[ \t]*\n|\[(?:Tool (?:call|result|use)|External (?:agent|session))\b[^\]\n]*\][ \t]*(?:\n|\Z)|\[[a-z]\w+(?: [^\]\n]*)?\] Result:[ \t]*(?:\n|\Z)"
    r"|\[TASK RESUMPTION\] This task was interrupted|\[ERROR\] You did not use a tool in your previous response"
    r"|Called the \w+ tool with the following input: \{|Result of calling the \w+ tool:\s|Tool loaded\.[ \t]*(?:\n|\Z)|Here is the user's editor context as a JSON object"
    r"|Note: \S+ was modified, either by the user or by a linter|This is a reminder that your todo list is currently empty\. DO NOT"
    r"|Warning: (?:apply_patch was requested via |The maximum number of unified exec processes )"
)
"""How texts begin that programs write in the user's name: whole headings, which nobody types by chance."""
_PLAN = compile_pattern(r"(?:Implement the following plan|PLEASE IMPLEMENT THIS PLAN):\s")
_JSON = compile_pattern(
    r'(?s)\{\s*"(?:(?:task_id|tool_use_id|jsonrpc)"|type"\s*:\s*"\w+_\w+"|(?:from|agent|author)"\s*:.*"(?:recipient|text|content|message)"\s*:).*\}\s*'
)


class Speech(NamedTuple):
    """Who said a text, and the words: the user's alone where the user said it."""

    origin: Origin
    text: str


class SpeakerGate:
    """Judges the prompts of one thread, and counts the envelopes that it does not know."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        self.log = DocumentLog()

    def judge(self, text: str, evidence: Evidence = "", *, queued: bool = False) -> Speech:
        """Judge a text of user role."""
        text = text.strip()
        self.log.find(text)
        if evidence == "program":
            return Speech("harness", text)
        words = INTERRUPTED.sub("", text, count=1) if INTERRUPTED.match(text) else text
        if is_handoff_prompt(words):
            return Speech("handoff", words)
        if evidence != "user" and (plan := _PLAN.match(words)):
            return Speech("plan", words[plan.end() :].strip())
        words = self._unwrap(words, evidence)
        if not words:
            return Speech("harness", text)
        if is_handoff_prompt(words):
            return Speech("handoff", words)
        return Speech("queued" if queued else "typed", words)

    def list_notes(self) -> list[str]:
        """List what was met and is not taken for the user's words, a sentence for each kind."""
        return [
            f"{count} message(s) in <{name}> are not taken for the user's words"
            for name, count in self.unknown.items()
        ]

    def _unwrap(self, text: str, evidence: Evidence) -> str:
        """Return the user's words in a text; empty where it has none."""
        if _CONTEXT.match(text):
            requests = list(_REQUEST.finditer(text))
            text = text[requests[-1].end() :].strip() if requests else ""
        is_typed = evidence == "user"
        text = self._drop_leading(text, is_typed)
        if not is_typed and (_TEMPLATES.match(text) or _JSON.fullmatch(text)):
            return ""
        text = _drop_trailing(text, is_typed)
        query = _QUERY.match(text)
        text = query[2] if query else text
        return "" if _ORDERS.match(text) else text

    def _drop_leading(self, text: str, is_typed: bool) -> str:
        """Drop the elements at the beginning of a text that are not the user's own.

        Empty where one of them is a message of a program or another agent: it may go on behind it.
        """
        elements = list(_find_elements(text))
        spoken = [e for e in elements if not _is_beside(text, e, is_typed)]
        if not is_typed:
            is_alone = len(spoken) == 1 and not text[elements[-1].end :].strip()
            names = [e.name for e in spoken if _is_envelope(text, e, is_alone=is_alone)]
            if any(_PROGRAM.fullmatch(name) for name in names):
                return ""
            if names and not _QUERY.match(text):
                self.unknown.update(names[:1])
                return ""
        own = [text[e.start : e.end] for e in spoken]
        return "".join((*own, text[elements[-1].end if elements else 0 :])).strip()


def extract_first_words(text: str, evidence: Evidence = "") -> str:
    """Return what began a thread, on one line, as a title shows it; empty for a program's text.

    Of a handoff it is the goal: `handoff: cover the 429 path`.
    """
    origin, words = SpeakerGate().judge(text, evidence)
    if origin == "harness":
        return ""
    goal = find_handed_goal(words)
    words = f"{HANDED}{goal}" if goal else extract_human_words(words) or words
    return " ".join(words.split())[:120]


def find_first_prompt(entries: Iterable[Entry]) -> str:
    """Find the text with which a thread begins: what the user typed first, or a handoff with its goal."""
    for entry in entries:
        if entry.is_prompt:
            return entry.text
        if entry.origin == "handoff" and (goal := find_handed_goal(entry.text)):
            return f"{HANDED}{goal}"
    return ""


def is_inserted(text: str) -> bool:
    """Return whether a part of a message is what a program put beside what the user typed."""
    text = text.strip()
    elements = list(_find_elements(text))
    whole = bool(elements) and elements[-1].end == len(text)
    return whole and all(_is_beside(text, element, is_typed=True) for element in elements)


class _Element(NamedTuple):
    """An element of a text: from its opening tag to behind its closing one."""

    name: str
    start: int
    end: int


def _find_elements(text: str) -> Iterator[_Element]:
    """Yield the elements at the beginning of a text, up to words on the line of one.

    One that a program writes and never closes goes to the end of the text; one in which others
    speak ends where it is closed last, because they may write its end.
    """
    position = 0
    while match := _ELEMENT.match(text, position):
        name, end = match[1], match.end()
        if not match[0].endswith("/>"):
            is_program = bool(_PROGRAM.fullmatch(name))
            closing = f"</{name}>"
            found = text.rfind(closing, end) if is_program else text.find(closing, end)
            is_known = is_program or _INSERTED.fullmatch(name) or _BESIDE.fullmatch(name)
            if found < 0 and not (is_known and text.startswith("\n", end)):
                return
            end = len(text) if found < 0 else found + len(closing)
        if text[end:].lstrip(" \t")[:1] not in ("", "\n", "\r", "<"):
            return
        yield _Element(name, position, end)
        position = end


def _is_beside(text: str, element: _Element, is_typed: bool) -> bool:
    """Return whether a program put an element beside what the user typed."""
    if is_typed:
        return bool(_INSERTED.fullmatch(element.name))
    whole = text[element.start : element.end].lstrip()
    known = _INSERTED.fullmatch(element.name) or _BESIDE.fullmatch(element.name)
    return bool(known or _ATTACHED.match(whole))


def _is_envelope(text: str, element: _Element, *, is_alone: bool) -> bool:
    """Return whether an element hands on what somebody else says; one without words does not."""
    name, whole = element.name, text[element.start : element.end]
    if _PROGRAM.fullmatch(name):
        return True
    if not _TAG.sub("", whole).strip():
        return False
    if _SENDER.search(whole[: whole.find(">")]):
        return True
    is_everyday = re.split(r"[-_.:]", name.lower())[-1] in _EVERYDAY
    return not is_everyday and (is_alone or "-" in name or "_" in name)


def _drop_trailing(text: str, is_typed: bool) -> str:
    """Drop the elements that a program puts behind the user's words, on lines of their own."""
    while match := _CLOSING.search(text):
        name = match[1]
        start = text.rfind(f"\n<{name}")
        while start > 0 and text.count(f"<{name}", 0, start) > text.count(f"</{name}>", 0, start):
            start = text.rfind(f"\n<{name}", 0, start)
        is_program = not is_typed and bool(_PROGRAM.fullmatch(name))
        is_beside = _is_beside(text, _Element(name, start, len(text)), is_typed)
        if start < 0 or not (is_program or is_beside):
            break
        text = text[:start].rstrip()
    return text
