"""What the chat shows: Markdown line by line, tools, plans, questions, and nothing a terminal obeys."""

import io
from pathlib import Path

import pytest
from chats import Chatting
from msgspec.structs import replace
from rich.console import Console

from tasuki.config import settings
from tasuki.session.agent_session.backend import (
    AgentCommand,
    AgentPlan,
    AgentTodo,
    ContextUsage,
    FileDiff,
    PermissionOption,
    PermissionRequest,
    SessionEvent,
    TextPiece,
    ThoughtPiece,
    ToolProgress,
    TurnEnded,
    TurnStarted,
    find_refusal,
)
from tasuki.session.chat.controllers import (
    CommandCompleter,
    build_question,
    build_status_line,
    find_hint,
    format_context_use,
    open_history,
)
from tasuki.session.chat.painter import (
    EventPainter,
    MarkdownPainter,
    PaintedLine,
    build_tool_lines,
    replay_messages,
)
from tasuki.session.chat.view import fit_line
from tasuki.session.pi_store.messages import (
    build_assistant_message,
    build_text_block,
    build_tool_call,
    build_user_message,
)


def painted(*events: SessionEvent, raw: bool = False) -> list[str]:
    """The lines that events are painted as."""
    lines: list[PaintedLine] = []
    painter = EventPainter(lines.append, raw)
    for event in events:
        painter.take(event)
    painter.finish()
    return [line.text.plain for line in lines]


def marked(*lines: str) -> list[str]:
    """Lines of Markdown as they are shown."""
    markdown = MarkdownPainter()
    return [line.text.plain for text in lines if (line := markdown.paint_line(text)) is not None]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("## What I found", "What I found"),
        ("the `--flag` of **this** and *that*", "the --flag of this and that"),
        ("a * b * c, and *.py, **kwargs", "a * b * c, and *.py, **kwargs"),
        ("- item", "• item"),
        ("  2. second", "  2. second"),
        ("- [ ] open", "☐ open"),
        ("- [x] done", "☑ done"),
        ("> quoted", "│ quoted"),
        ("see [the docs](https://example.org)", "see the docs (https://example.org)"),
        ("| a | b |", "| a | b |"),
        ("snake_case_name", "snake_case_name"),
    ],
)
def test_a_line_of_markdown(line: str, shown: str) -> None:
    """Marks become what they mean; what only looks like one stays."""
    assert marked(line) == [shown]


def test_code_stays_as_it_is() -> None:
    """Inside a fence nothing is a mark, until the fence that ends it."""
    assert marked("```py", "# no heading", "`a` **b**", "~~~", "```", "# heading") == [
        "  # no heading",
        "  `a` **b**",
        "  ~~~",
        "heading",
    ]


def test_text_streams_in_pieces() -> None:
    """A line is written when it is whole; what is not is live; another message is set apart."""
    lines: list[PaintedLine] = []
    painter = EventPainter(lines.append)
    painter.take(TextPiece("The fir"))
    painter.take(TextPiece("st line\nthe sec", "a"))
    assert [line.text.plain for line in lines] == ["The fir", "", "st line"]
    assert painter.live == "the sec"
    painter.take(TextPiece("ond"))
    painter.take(TurnEnded("end_turn", ""))

    assert [line.text.plain for line in lines][3:] == ["the sec", "", "ond", ""]
    assert painter.live == ""


def test_nothing_that_a_terminal_obeys_is_shown() -> None:
    """Escape sequences of an agent move no cursor, set no title and end no paste."""
    evil = "\x1b[2J\x1b]0;owned\x07a\x1b[201~b\r\x08"
    diff = FileDiff(evil, evil, f"{evil}\nnew")
    tool = ToolProgress("1", evil, "execute", "failed", {}, (), (diff,), evil)
    turn = TurnStarted(evil)
    lines = painted(
        turn,
        TextPiece(f"{evil}\n"),
        ThoughtPiece(f"{evil}\n"),
        tool,
        AgentPlan((AgentTodo(evil),)),
        raw=True,
    )

    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for line in lines for c in line)
    asked = build_question(
        PermissionRequest(tool, (PermissionOption("a", evil, "allow_once"),), print), "A"
    )
    assert "\x1b" not in str([asked.question, asked.options, asked.lines])


def test_a_tool_is_shown_when_it_ended() -> None:
    """Its title, the end of its output, how much is left out; what still ran at the end is told."""
    running = ToolProgress("1", "pytest -q", "execute", "in_progress")
    output = "\n".join(f"line {n}" for n in range(10))

    assert painted(running) == []
    assert painted(running, replace(running, status="completed", output=output)) == [
        "✓ pytest -q",
        "  … 4 more lines above",
        *(f"  line {n}" for n in range(4, 10)),
    ]
    assert painted(running, TurnEnded("cancelled", ""))[0] == "○ pytest -q (not finished)"


def test_a_change_is_shown_short() -> None:
    """Changed lines with one around them; the file where the title does not name it."""
    old = "".join(f"{n}\n" for n in range(50))
    tool = ToolProgress(
        "1", "Edit", "edit", "completed", diffs=(FileDiff("a.py", "a\nb\nc\n", "a\nB\nc\n"),)
    )

    assert [line.text.plain for line in build_tool_lines(tool)] == [
        "✓ Edit", "  a.py", "    a", "  - b", "  + B", "    c",
    ]  # fmt: skip
    long = replace(tool, title="Write a.py", diffs=(FileDiff("a.py", None, old),))
    lines = [line.text.plain for line in build_tool_lines(long)]
    assert lines[1] == "  + 0"
    assert lines[-1] == "  … 34 more lines changed"


def test_what_was_read_is_not_repeated() -> None:
    """The output of a reading tool is for the agent; a failure is for the user too."""
    tool = ToolProgress("1", "Read a.py", "read", "completed", output="secret of success")

    assert painted(tool) == ["✓ Read a.py"]
    assert painted(replace(tool, status="failed"))[1] == "  secret of success"


def test_long_lines_are_wrapped_under_their_beginning() -> None:
    """An item's later lines stand under its words; code is left to the terminal."""
    console = Console(file=io.StringIO(), width=21)
    item = MarkdownPainter().paint_line("- one two three four five six")
    assert item is not None

    assert [part.plain for part in fit_line(item, console)] == [
        "• one two three four",
        "  five six",
    ]
    markdown = MarkdownPainter()
    markdown.paint_line("```")
    code = markdown.paint_line("x" * 50)
    assert code is not None
    assert len(fit_line(code, console)) == 1


def test_a_session_is_shown_anew() -> None:
    """The handoff first, without its frame; then who said what; of a long one the newest part."""
    handoff = {
        "role": "custom",
        "customType": "handoff",
        "content": "<handoff-context>\n## Goal\n- tabs\n</handoff-context>\n\nThe above is a handoff "
        "document from a previous session. Use this context to continue the work seamlessly.",
    }
    call = build_tool_call("1", "bash", {"command": "pytest"})
    said = [build_user_message("go on"), build_assistant_message([build_text_block("I do."), call])]
    lines: list[PaintedLine] = []
    replay_messages(EventPainter(lines.append), [handoff, *said])
    shown = [line.text.plain for line in lines]

    assert [line for line in shown if line] == [
        "─" * 40, "Goal", "• tabs", "› go on", "I do.", "✓ bash pytest",
    ]  # fmt: skip
    lines.clear()
    replay_messages(EventPainter(lines.append), [handoff, *said * 20])
    assert "… 28 earlier messages" in [line.text.plain for line in lines]


def test_the_careful_answer_is_at_hand() -> None:
    """Refuse once, before refuse always; where nothing refuses there is none to take by mistake."""

    def options(*kinds: str) -> tuple[PermissionOption, ...]:
        return tuple(PermissionOption(kind, kind, kind) for kind in kinds)

    assert find_refusal(options("allow_always", "reject_always", "reject_once")) == 2
    assert find_refusal(options("allow_once", "reject_always")) == 1
    assert find_refusal(options("allow_once")) is None
    tool = ToolProgress("1", "Run", "execute", arguments={"command": "rm -rf\nbuild"})
    asked = build_question(
        PermissionRequest(tool, options("allow_once", "reject_once"), print), "Gemini"
    )
    assert (asked.question, asked.default) == ("Gemini asks: Run", 1)
    assert asked.lines == ("$ rm -rf", "$ build")


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (ContextUsage(0, 128_000), ""),
        (ContextUsage(900), "context 900"),
        (ContextUsage(12_500, 128_000), "context 12.5k of 128k (10 %)"),
        (ContextUsage(300_000, 1_000_000), "context 300k of 1M (30 %)"),
    ],
)
def test_context_use(usage: ContextUsage, shown: str) -> None:
    """As much as is known is told."""
    assert format_context_use(usage) == shown


def test_the_bottom_line(tmp_path: Path) -> None:
    """Agent, folder and context, cut to the terminal; `/handoff` from the threshold on, unless off."""
    chat = Chatting(tmp_path).conversation
    chat.cwd, chat.usage = Path("/p"), ContextUsage(90, 100)
    assert (
        build_status_line(chat, 80) == "Scripted · /p · context 90 of 100 (90 %) · /handoff · /help"
    )
    assert len(build_status_line(chat, 20)) == 20
    chat.loaded = settings.load_with_sources(tmp_path, {"suggest_at": 0})
    assert build_status_line(chat, 80) == "Scripted · /p · context 90 of 100 (90 %) · /help"


def test_the_inline_hint() -> None:
    """A1: it stands behind the command alone, also behind one of the agent's; other text has none."""
    own = (AgentCommand("review", "", "[path]"), AgentCommand("plain"))

    assert find_hint("/handoff", own) == " [focus instructions]"
    assert find_hint("/handoff ", own) == "[focus instructions]"
    assert find_hint("/handoff x", own) == ""
    assert find_hint("/review", own) == " [path]"
    assert find_hint("/plain", own) == find_hint("hello", own) == ""


def test_commands_are_completed() -> None:
    """Ours first, then the agent's own; one of the same name is shadowed; not inside a text."""
    own = (
        AgentCommand("help", "theirs"),
        AgentCommand("hello", "greets"),
        AgentCommand("memory show"),
    )
    completer = CommandCompleter(lambda: own)

    assert [name for name, _ in completer.find_commands("/he")] == ["/help", "/hello"]
    assert [name for name, _ in completer.find_commands("/memory s")] == ["/memory show"]
    assert (
        completer.find_commands("/help")
        == completer.find_commands("see /he")
        == completer.find_commands("/he\n")
        == []
    )


def test_the_history_is_the_users_alone(tmp_path: Path) -> None:
    """Mode 600; where no file can be made, the prompts of this run are kept in memory."""
    path = tmp_path / "data" / "history"
    open_history(path).append_string("a prompt")

    assert path.stat().st_mode & 0o777 == 0o600
    assert "a prompt" in path.read_text()
    open_history(path / "impossible").append_string("another")
