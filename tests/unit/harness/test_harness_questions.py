"""Questions of real programs: what their hooks told of them, and what their screens showed."""

import json
from typing import Any

import msgspec
import pytest
from controls import control
from tree import FIXTURES

from tasuki.fleet.store.questions import (
    OTHER,
    PARTIAL,
    SECRET,
    TALL,
    TOO_LONG,
    UNSEEN,
    add_question,
    build_question,
    is_on_screen,
    is_reviewed,
    read_from_screen,
    take_next,
)
from tasuki.harness.protocol import AgentEvent, Screenshot
from tasuki.harness.questions import (
    AskedQuestion,
    DialogSubject,
    ScreenQuestion,
    describe_tool_call,
)

QUESTIONS = FIXTURES / "questions"
SHOWN = {
    "claude": ("bash", "write", "choice", "several", "two", "fetch", None, None, "choice", "plan",
               None, None, "edit", "edits", "overwrite", "mcp", "notebook", "read", "search", "agents"),
    "codex": ("bash", "bash", None),
    "gemini": ("bash", None, "edit"),
}  # fmt: skip
"""Which screen shows all of what each payload tells; None where none does."""
HIDDEN = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3


def seen(name: str) -> ScreenQuestion:
    """What a screen asks, by the name of its file."""
    screenshot = Screenshot((QUESTIONS / f"{name}.txt").read_text())
    found = control(name.partition("-")[0]).read_question(screenshot)
    assert found is not None
    return found


def told(harness: str) -> list[AgentEvent]:
    """What the payloads of a program tell."""
    lines = (QUESTIONS / f"{harness}.jsonl").read_text().splitlines()
    found = [control(harness).parse_event(json.loads(line)) for line in lines]
    return [event for event in found if event]


def labels(name: str) -> list[tuple[str, str]]:
    """The choices of a screen."""
    return [(choice.key, choice.label) for choice in seen(name).choices]


@pytest.mark.parametrize("harness", sorted(SHOWN))
def test_each_question_is_found_on_its_own_screen(harness: str) -> None:
    """And on no other one of the same program, but for one that asks the same in the same words."""
    for event, own in zip(told(harness), SHOWN[harness], strict=True):
        question = build_question(event, 1.0)
        found = {
            path.stem.partition("-")[2]
            for path in QUESTIONS.glob(f"{harness}-*.txt")
            if is_on_screen(question, seen(path.stem))
        }
        if own and event.question and event.question.text.startswith("Which database"):
            assert found == {"choice", "two"}
        else:
            assert found == ({own} if own else set()), event


def test_the_choices_of_claude() -> None:
    """Every choice has its digit; one that takes words is no choice."""
    assert labels("claude-bash") == [
        ("1", "Yes"),
        ("2", "Yes, and always allow access to /tmp/zz and /tmp/zz/abc from this project"),
        ("3", "Yes, and switch to auto mode · auto mode handles these prompts for you"),
        ("4", "No"),
    ]
    assert [key for key, _ in labels("claude-choice")] == ["1", "2", "4"]
    assert seen("claude-choice").text_keys == ("3",)
    assert [label for _, label in labels("claude-plan")] == [
        "Yes, and use auto mode",
        "Yes, manually approve edits",
    ]
    assert seen("claude-plan").text_keys == ("3",)


def test_the_boxes_of_claude() -> None:
    """Each has its digit and its tick; none is offered while digits would be typed into the field."""
    several, ticked = seen("claude-several"), seen("claude-ticked")
    assert labels("claude-several") == [("1", "A a"), ("2", "B b")]
    assert (several.next_keys, several.text_keys, several.detail) == (("Right",), None, "")
    assert [one.is_ticked for one in ticked.choices] == [True, False]
    assert labels("claude-ticked")[1] == ("2", "PostgreSQL A server that several hosts share")
    screen = (QUESTIONS / "claude-several.txt").read_text()
    for line in ("  3. [ ] Type something", "  4. Chat about this", "     Submit"):
        moved = screen.replace("❯ 1.", "  1.").replace(line, f"❯{line[1:]}")
        found = control("claude").read_question(Screenshot(moved))
        assert found is None or (found.choices, found.takes_several) == ((), False)


def test_the_answers_that_claude_shows_before_they_are_sent() -> None:
    """They are a question of their own, which repeats the others; what is cut off counts as many."""
    subject = DialogSubject("choice", "Which databases?")
    question = build_question(AgentEvent("waiting", "s", question=AskedQuestion("Which databases?", "", "choice", subject)), 1.0)  # fmt: skip
    one, three = seen("claude-review"), seen("claude-reviews")
    assert (one.text, one.detail, one.answers) == ("Submit these answers?", "● Which databases?\n→ SQLite", 1)  # fmt: skip
    assert (len(three.detail.splitlines()), three.answers) == (6, 3)
    assert [label for _, label in labels("claude-review")] == ["Submit answers", "Cancel"]
    screen = (QUESTIONS / "claude-reviews.txt").read_text().partition("Review your answers")[2]
    cut = control("claude").read_question(Screenshot(screen))
    assert cut is not None
    assert cut.answers > 3
    review = read_from_screen(None, one, 2.0)
    assert review is not None
    assert review.is_review

    assert is_on_screen(review, one)
    assert not is_on_screen(review, three)
    assert not is_on_screen(question, one)
    assert (is_reviewed(question, one), is_reviewed(question, seen("claude-several"))) == (True, False)  # fmt: skip


def test_the_choices_of_other_programs() -> None:
    """Codex and Gemini CLI take digits; what takes one in Copilot CLI is not known."""
    assert labels("codex-bash") == [
        ("1", "Yes, proceed (y)"), ("2", "No, and tell Codex what to do differently (esc)"),
    ]  # fmt: skip
    assert [label for _, label in labels("gemini-bash")] == [
        "Allow once", "Allow for this session", "No, suggest changes (esc)",
    ]  # fmt: skip
    assert seen("gemini-choice").text_keys == ("3",)
    assert seen("copilot-trust").text == "Do you trust the files in this folder?"
    assert labels("copilot-trust") == []


@pytest.mark.parametrize(
    ("hint", "text_keys"),
    [(" enter submit  escape/ctrl+c cancel", ()), (" ↑↓ navigate  enter select  escape/ctrl+c cancel", None)],
)  # fmt: skip
def test_a_dialog_of_pi(hint: str, text_keys: tuple[str, ...] | None) -> None:
    """It stands in the place of the input; only words can be given from here."""
    rule, pi = "─" * 40, control("pi")
    screenshot = Screenshot(
        f"ask_port\n{rule}\n\n Which port?\n\n >\n\n{hint}\n\n{rule}\n~/proj (main)"
    )

    assert pi.read_screen(screenshot).state == "waiting"
    assert pi.read_question(screenshot) == ScreenQuestion("Which port?", text_keys=text_keys)
    assert pi.read_question(Screenshot(f"{rule}\nhello\n{rule}\n")) is None


def test_the_command_is_told_whole() -> None:
    """Claude Code, Codex and Gemini CLI tell the command, the plan, the change and the choices."""
    claude, codex, gemini = (told(name) for name in ("claude", "codex", "gemini"))
    questions = [build_question(event, 1.0) for event in claude]
    assert (questions[0].text, questions[0].words) == ("Allow Bash?", "Run migration down")
    assert questions[0].detail.endswith("another.txt\necho four")
    assert (questions[1].text, questions[1].file, questions[1].detail) == ("Allow Write?", "/home/dev/proj/a.py", "print(1)\n")  # fmt: skip
    assert [choice.label.split(" — ")[0] for choice in questions[2].choices] == ["SQLite", "PostgreSQL"]  # fmt: skip
    assert [choice.label for choice in questions[3].choices] == ["A — a", "B — b"]
    assert (questions[9].kind, questions[9].detail) == ("plan", "# The plan\n\n1. Do this\n2. Do that\n")  # fmt: skip
    assert "*** Add File: /opt/zz/b.py" in build_question(codex[2], 1.0).detail
    assert build_question(gemini[0], 1.0).detail.startswith("mkdir -p /tmp/zz && echo two")


def test_the_choices_keep_the_words_of_the_hook() -> None:
    """A label on the screen runs into its description; the hook has them apart."""
    question = read_from_screen(build_question(told("claude")[2], 1.0), seen("claude-choice"), 1.5)

    assert question is not None
    assert (question.is_read, question.takes_text) == (True, True)
    assert question.choices[0].label == "SQLite — One file, nothing to run"


def test_another_question_on_the_screen_takes_the_place_of_a_choice() -> None:
    """Not at once: a hook is told before the dialog is drawn; its mark is another one then."""
    question = build_question(told("claude")[2], 100.0)
    early = read_from_screen(question, seen("claude-several"), 101.0)
    late = read_from_screen(question, seen("claude-several"), 103.0)

    assert early == question
    assert late is not None
    assert late.mark != question.mark
    assert (late.text, late.takes_several) == ("Which parts?", True)
    assert read_from_screen(late, seen("claude-several"), 110.0) == late


@pytest.mark.parametrize(
    ("number", "screen", "why"),
    [
        (10, "claude-tall", TALL),
        (10, "codex-tall", TALL),
        (10, "gemini-tall", TALL),
        (11, "claude-unshown", "Its program says “value cannot be shown in full”: read it in its terminal."),
        (11, "claude-fetch", OTHER),
        (9, "claude-bash", OTHER),
    ],
)  # fmt: skip
def test_what_a_hook_reports_is_never_replaced(number: int, screen: str, why: str) -> None:
    """Where the dialog does not show all of it, or something else, it has no choices, and says why."""
    question = build_question(told("claude")[number], 100.0)
    read = read_from_screen(question, seen(screen), 103.0)

    assert read is not None
    assert (read.mark, read.detail, read.obstacle) == (question.mark, question.detail, why)
    assert (read.choices, read.takes_text, read.takes_several, read.is_read) == ((), False, False, True)  # fmt: skip


def test_a_dialog_that_is_not_known_takes_no_words() -> None:
    """Whatever is typed into it may take one of its choices."""
    vague = build_question(AgentEvent("waiting", "s", text="permission for bash"), 100.0)
    read = read_from_screen(vague, None, 103.0)

    assert read is not None
    assert (read.takes_text, read.obstacle) == (False, UNSEEN)
    assert read_from_screen(vague, None, 100.5) == vague


def test_of_several_questions_that_of_the_screen_is_asked() -> None:
    """Sub-agents report theirs at once, one each; the newest is open once that one is answered."""
    old, first, second, third = (
        msgspec.structs.replace(asked(f"touch /tmp/{name}"), child=name) for name in ("one", "one", "two", "three")
    )  # fmt: skip
    question = add_question(add_question(add_question(old, first), second), third)
    read = read_from_screen(question, seen("claude-agents"), 9.0)

    assert read is not None
    assert (read.mark, read.detail) == (second.mark, "touch /tmp/two")
    assert [one.mark for one in read.behind] == [first.mark, third.mark]
    following = take_next(read)
    assert following is not None
    assert (following.mark, [one.mark for one in following.behind]) == (third.mark, [first.mark])
    assert take_next(first) is None


def test_a_question_that_only_the_screen_has() -> None:
    """The second of two questions, and one that no hook reports; the same one is not new again."""
    vague = build_question(AgentEvent("waiting", "s", text="Claude needs your permission"), 100.0)
    found = read_from_screen(vague, seen("claude-several"), 100.1)

    assert found is not None
    assert (found.text, found.kind, found.asked_at) == ("Which parts?", "choice", 100.1)
    assert read_from_screen(found, seen("claude-several"), 200.0) == found


def asked(command: str, **more: Any) -> Any:
    """The question whether a command may run."""
    called = describe_tool_call("Bash", {"command": command, "description": "Tidy up", **more})
    return build_question(AgentEvent("waiting", "s", question=called), 1.0)


def dialog(command: str, below: str = "", above: str = "Tidy up") -> ScreenQuestion:
    """A dialog of Claude Code about a command."""
    rule, dashes = "─" * 60, "╌" * 60
    rows = [rule, " Bash command", f" {above}", dashes, *(f" {row}" for row in command.split("\n")), dashes,
            " Do you want to proceed?", " ❯ 1. Yes", "   2. No", below, " Esc to cancel"]  # fmt: skip
    found = control("claude").read_question(Screenshot("\n".join(rows)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("stored", "on_screen", "same"),
    [
        ("ls", "ls", True),
        ("ls", "rm -rf / && ls", False),
        ("ls", "rm -rf / &&\nls", False),
        ("rm -rf build", "rm -rf\nbuild", True),
        ("rm -rf build", "rm -rf build /", False),
        ("rm -rf build/", "rm -rf build /", False),
        ("echo a\nrm -rf b", "echo a rm -rf b", False),
        ("touch a\n\n\nls", "touch a\nls", False),
        ("touch a\n\n\nls", "touch a\n\n\nls", True),
        ("touch a;" + " " * 90 + "ls", "touch a;\n" + " " * 30 + "ls", True),
        ("\n\nls", "\n\nls", True),
        ("rm\u00a0-rf b", "rm -rf b", False),
        ("touch\u200b a", "touch a", False),
        ("rm -rf --no-preserve-root", "rm -rf -no-preserve-root", False),
        ("echo — ─ b", "echo b", False),
        ("ls; echo …", "ls; echo …", True),
        ("ls", "", False),
        (f"curl -H 'x-api-key: {HIDDEN}' a.example", f"curl -H 'x-api-key: {HIDDEN}' a.example", False),
        ("echo 'one\n❯ 1. Yes\n  2. No'", "echo 'one\n❯ 1. Yes\n  2. No'", True),
    ],
)  # fmt: skip
def test_a_command_is_that_of_the_screen_and_no_part_of_it(
    stored: str, on_screen: str, same: bool
) -> None:
    """Several may have been asked for at once: an answer must not allow more than its card shows."""
    assert is_on_screen(asked(stored), dialog(on_screen)) is same


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("curl [REDACTED:key] a; touch F", SECRET),
        (f"touch F >{HIDDEN}", SECRET),
        (f"curl -H 'x-api-key: {HIDDEN}' a; touch F", SECRET),
        ("PASSWORD=rm+hidden99Xx; ${PASSWORD//+/ }; touch F", SECRET),
        ("DB_PASSWORD=prod-main-cluster-01Xy; touch F $DB_PASSWORD", SECRET),
        ("aws iam delete-access-key --access-key-id AKIAQWERTYUIOPASDFGH; touch F", SECRET),
        ("echo " + "x y z " * 10_000 + "; touch F", TOO_LONG),
        ("\u200b \u200c " * 1200 + "touch F", TOO_LONG),
    ],
)  # fmt: skip
def test_what_is_not_shown_whole_is_not_answered(command: str, why: str) -> None:
    """Beginning and end are shown, also of what has no end; and no secret hides what is run or hit."""
    question = asked(command)
    read = read_from_screen(question, dialog(command), 9.0)

    assert read is not None
    assert "touch F" in question.detail
    assert len(question.detail) < 8100
    assert (read.obstacle, bool(read.choices)) == (why, not why)


@pytest.mark.parametrize(
    ("seen_now", "why"),
    [
        (dialog("ls"), ""),
        (dialog("ls", below=" ↑ 34 more lines"), TALL),
        (dialog("ls", above="The value cannot be shown in full, but press Yes"), "Its program says “value cannot be shown in full”: read it in its terminal."),
        (msgspec.structs.replace(dialog("ls"), is_whole=False), TALL),
        (msgspec.structs.replace(dialog("ls"), is_faithful=False), PARTIAL),
        (dialog("ls �"), PARTIAL),
        (dialog("ls", above=f"with {HIDDEN}"), SECRET),
    ],
)  # fmt: skip
def test_a_question_that_only_the_screen_has_is_answered_where_that_shows_all(
    seen_now: ScreenQuestion, why: str
) -> None:
    """No hook told what is asked: what is on the screen is all there is."""
    question = read_from_screen(None, seen_now, 1.0)

    assert question is not None
    assert (question.obstacle, bool(question.choices)) == (why, not why)
    assert "ls" in question.detail


def test_a_row_below_is_no_part_of_a_label() -> None:
    """It begins further left; and a row of a label is no choice."""
    assert [one.label for one in dialog("ls", below=" ↑ 34 more lines").choices] == ["Yes", "No"]
    rows = ["─" * 60, " Allow it?", " ❯ 1. Yes", "   2. Yes, and don't ask again for: x", "      2. No", "   3. No"]  # fmt: skip
    found = control("claude").read_question(Screenshot("\n".join(rows)))
    assert found is not None
    assert [one.label for one in found.choices] == ["Yes", "Yes, and don't ask again for: x 2. No", "No"]  # fmt: skip


@pytest.mark.parametrize(
    ("new", "old", "rows", "same"),
    [
        ("import os\nx = 1", None, "1 import os\n2 x = 1", True),
        ("import os\nx = 1", None, "1 import os\n2 x = 1\n3 evil()", False),
        ("- a\n+ b", None, "1 - a\n2 + b", True),
        ("two", "one", " 7  above\n 8 -one\n 8 +two\n 9  below", True),
        ("seven", "7", " 8 -line 7\n 8 +line seven", True),
        ("two", "one", " 8 -one\n 8 +two\n 9 +evil()", False),
        ("two", "one", " 8 -one\n 9 -two\n 8 +two", False),
        ("", "one", " 7  above\n 8 -one\n 9  below", True),
        ("a\nb\nc", None, " 1 -x\n 1 +a\n...\n 9  c\n \\ No newline at end of file", True),
        ("a\nb\nc", None, " 1 -x\n 1 +a\n...\n 9  c\n10 +evil()", False),
        ("a", None, "", False),
    ],
)
def test_a_change_is_that_of_the_screen(new: str, old: str | None, rows: str, same: bool) -> None:
    """Nothing in its diff is added that tasuki does not show, and nothing else is replaced."""
    given = {"content": new} if old is None else {"old_string": old, "new_string": new}
    called = describe_tool_call("Edit", {"file_path": "/src/a.py", **given}, "/src")
    question = build_question(AgentEvent("waiting", "s", question=called), 1.0)
    seen_now = ScreenQuestion("Make this edit?", subject=tuple(rows.split("\n")), above=(" Edit file", " a.py"))  # fmt: skip

    assert is_on_screen(question, seen_now) is same
    for above in ((), (" b/a.py",), (" Edit file", " README.md — a.py")):
        assert not is_on_screen(question, msgspec.structs.replace(seen_now, above=above))


def test_a_question_of_the_agent_is_no_permission() -> None:
    """Its words are those of a dialog about a command, which is not answered for that."""
    words = "Do you want to proceed?"
    given = {"questions": [{"question": words, "options": [{"label": "Yes"}, {"label": "No"}]}]}
    event = control("claude").parse_event({"hook_event_name": "PermissionRequest", "session_id": "s", "tool_name": "AskUserQuestion", "tool_input": given})  # fmt: skip
    assert event is not None
    question = build_question(event, 1.0)

    assert not is_on_screen(question, dialog("rm -rf build"))
    read = read_from_screen(question, dialog("rm -rf build"), 9.0)
    assert read is not None
    assert "rm -rf build" in read.detail


@pytest.mark.parametrize(
    ("tool", "given", "command", "about"),
    [
        ("mcp__box__drop", {"x": "$(touch F)"}, 'x: "$(touch F)"', "box drop"),
        ("WebSearch", {"query": "$(touch F)"}, 'Web Search("$(touch F)")', "Search"),
        ("ExitPlanMode", {"plan": "touch F"}, "touch ~/F", "Ready to code?"),
        ("Write", {"file_path": "/src/a.py", "content": "touch F"}, "1 touch F", "a.py"),
        ("AskUserQuestion", {"questions": [{"question": "Bash commandabout Do you want to proceed?"}]}, "touch F", "about"),
        ("Bash", {"command": "x: y"}, "x: y", "about"),
    ],
)  # fmt: skip
def test_a_dialog_about_a_command_is_none_about_another_tool(
    tool: str, given: Any, command: str, about: str
) -> None:
    """Two sub-agents ask at once; the words of one are those of the other one's command."""
    payload = {"hook_event_name": "PermissionRequest", "session_id": "s", "cwd": "/src", "tool_name": tool, "tool_input": given}  # fmt: skip
    event = control("claude").parse_event(payload)
    assert event is not None

    found = is_on_screen(build_question(event, 1.0), dialog(command, above=about))
    assert found is (tool == "Bash")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("claude-trust", [("Enter",), ("Down", "Enter")]),
        ("claude-trust-moved", [("Up", "Enter"), ("Enter",)]),
        ("claude-bypass", [("Enter",), ("Down", "Enter")]),
    ],
)
def test_choices_without_numbers_are_taken_by_arrows(
    name: str, keys: list[tuple[str, ...]]
) -> None:
    """From wherever the mark is to the choice, then Enter."""
    assert [choice.keys for choice in seen(name).choices] == keys


@pytest.mark.parametrize("last", ["", "  Press Enter\n", "❯ Yes\n"])
def test_a_marked_row_is_no_dialog_without_its_hint(last: str) -> None:
    """What the user typed stands behind the same sign: nothing is pressed there."""
    text = f"{'─' * 80}\n Is it so?\n\n ❯ No\n   Yes\n\n{last}"
    assert control("claude").read_question(Screenshot(text)) is None


def test_what_else_a_tool_is_called_with_is_told() -> None:
    """Behind the command, by a sign that no command can write."""
    question = asked("touch F\n⟨with⟩ x", run_in_background=True, sandbox=None, timeout=1000)

    assert (
        question.detail
        == "touch F\n⟨U+27E8⟩with⟨U+27E9⟩ x\n⟨with⟩ run_in_background: true, timeout: 1000"
    )
    assert question.subject.text == "touch F\n⟨with⟩ x"


@pytest.mark.parametrize(
    "screen",
    [
        "", "1. Yes\n2. No", "❯ 1. Yes", "❯ 1. Yes\n❯ 2. No", "❯ 2. Yes\n  3. No", "❯ 1. a\n  2. b\n" + "word\n" * 9,
        "  1. one\n❯ 99. all", "❯ 0. Yes\n  1. No", "│" * 5000, "❯ 1. " + "9. " * 2000,
    ],
)  # fmt: skip
def test_a_list_is_no_dialog(screen: str) -> None:
    """Choices are numbered from 1, one of them is marked, and nothing else stands below them."""
    for name in ("claude", "codex", "gemini"):
        assert control(name).read_question(Screenshot(screen)) is None


@pytest.mark.parametrize(
    "payload",
    [
        {"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"options": 3}]}},
        {"tool_name": "AskUserQuestion", "tool_input": {"questions": {"a": 1}}},
        {"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"question": "Q?", "options": [1, {"label": 2}]}]}},
        {"tool_name": "ExitPlanMode", "tool_input": {"plan": 7}},
        {"tool_name": "Bash", "tool_input": {"command": ["rm", 3]}},
        {"tool_name": "Bash", "tool_input": "rm"},
        {"tool_name": 4, "tool_input": {"command": "rm"}},
    ],
)  # fmt: skip
def test_odd_payloads_are_questions_still(payload: dict[str, Any]) -> None:
    """What a payload lacks, the question lacks."""
    event = control("claude").parse_event(
        {"hook_event_name": "PermissionRequest", "session_id": "s", **payload}
    )

    assert event is not None
    assert event.kind == "waiting"
    assert build_question(event, 1.0).text


def test_a_tool_that_is_not_known_tells_everything() -> None:
    """Its arguments, as they are."""
    made = describe_tool_call("mcp__box__drop", {"table": "users", "force": True})

    assert (made.text, made.detail) == ("Allow mcp__box__drop?", '{\n  "table": "users",\n  "force": true\n}')  # fmt: skip
