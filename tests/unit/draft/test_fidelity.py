"""What a brief says to the letter and the thread does not hold is found, whatever the harness."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import pipeline
from tasuki.harness.registry import detect_harness
from tasuki.model import Entry, Goal, Thread
from tasuki_evals.cases.fidelity import InventedClaim, find_invented
from tasuki_testing import ThreadBuilder

CWD = "/home/dev/proj"
LONG = "one more line of the log\n" * 3000
ASKED_FOR = "What the user asked for and ruled"
GOAL = "make `retry_after` an argument of the client"
LAST = """\
## Plan
It stays. You could run `npm publish` yourself, say sk-live is the key.
Something in between.
- keep the **old** API
    - also `for` good
```sh
make deploy STAGE=dev
```"""
ASKED = "Please keep the **old** API,  whatever happens: three partners use it"
BRIEF = """\
# Handoff Context
[#n] names the entries an item rests on; open one with `tasuki read 0123abcd#n`.

<record-of-the-past>
## Context (from previous thread)
- I will rename `Foo` to `Bar`. [#2]
- Seen in the log: `needle-in-the-middle` [#5]
- [#9]:
> **Plan**
> It stays. You could run `npm publish` yourself
> […]
> - keep the **old** API
>     - also `for` good
> ```sh
> make deploy   STAGE=dev
> ```

## State of the work
- In progress: edited and never committed in this thread: `src/core/auth.py` [#3]
- Called off or changed, the user said: "no, leave the timeout alone" [#8]

## What the user asked for and ruled
- "Please keep the old API, whatever happens: three partners use it" [#1]
- "yes, both" — answering: Shall I change the two callers, too? [#7]
- "Please keep the old API … three partners use it" [#1]

## Key Decisions
- User: "no, leave the timeout alone" [#8]

## Changed since the thread
- gone: `src/elsewhere.py`

## Relevant Files
- src/core/auth.py — edited 1×; `handle_login` [#3]

## Relevant Commands
- `pytest -q tests` — failed: `KeyError: 'x'` [#4]
- `make deploy STAGE=dev` — ok [#5]

## Session Metadata
- Folder: `/home/dev/proj`
</record-of-the-past>

## Next Goal (verbatim)
make `retry_after` an argument of the client, add `never_seen`
"""


def talk(harness: str) -> ThreadBuilder:
    """A thread that holds everything in `BRIEF`."""
    return (
        ThreadBuilder(harness, CWD)
        .user(f"{ASKED}. Thanks!")
        .assistant("I will rename `Foo` to `Bar`.")
        .edit("src/core/auth.py", "def login():", "def handle_login():")
        .shell("pytest  -q tests", "1 failed\nE   KeyError: 'x'", 1)
        .shell("cd deploy && make deploy STAGE=dev", f"{LONG}needle-in-the-middle\n{LONG}")
        .assistant("Shall I change the two callers, too?")
        .user("yes, both")
        .user("no, leave the timeout alone")
        .assistant(LAST)
    )


def refused(builder: ThreadBuilder) -> ThreadBuilder:
    """A call that the user refused, as Claude Code records it."""
    builder.shell("git clean -fdx", "The user doesn't want to proceed with this tool use.")
    builder.records[-1]["message"]["content"][0]["is_error"] = True
    return builder


def with_refusal(builder: ThreadBuilder) -> ThreadBuilder:
    """A thread that goes on with a refusal and the words for it."""
    return refused(builder).user("not that way, ask me first").assistant("I won't.")


@pytest.fixture(params=["claude", "codex"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Thread:
    """The thread, as each harness records it."""
    return thread_of(talk(request.param), tmp_path)


def of(brief: str, thread: Thread, goal: str = GOAL) -> list[tuple[str, str]]:
    """What is invented, by kind."""
    return [(one.kind, one.text) for one in find_invented(brief, thread, goal)]


def test_a_true_brief_invents_nothing(thread: Thread) -> None:
    """Emphasis, white space, a leading `cd`, cut results and the folder's changes are no invention."""
    assert of(BRIEF, thread) == []


@pytest.mark.parametrize(
    ("true", "false", "kind", "text"),
    [
        ("- src/core/auth.py", "- src/core/oauth.py", "path", "src/core/oauth.py"),
        ("- src/core/auth.py", "- rc/core/auth.py", "path", "rc/core/auth.py"),
        ("- src/core/auth.py", "- src/core/auth.p", "path", "src/core/auth.p"),
        ("- src/core/auth.py", "- docs/new.md (unverified)", "path", "docs/new.md"),
        ("`pytest -q tests`", "`pytest -q tests/unit`", "command", "pytest -q tests/unit"),
        ("`pytest -q tests`", "`pytest -q`", "command", "pytest -q"),
        ("`pytest -q tests`", "`-q tests`", "command", "-q tests"),
        ("`pytest -q tests`", "`npm publish`", "command", "npm publish"),
        ("`pytest -q tests`", "`pytest -x …`", "command", "pytest -x …"),
        ("keep the old API", "drop the old API", "quote", None),
        ('"yes, both"', '"I will rename Foo to Bar."', "quote", "I will rename Foo to Bar."),
        ('- "yes, both" — answering', '- "yes, bot" — answering', "quote", "yes, bot"),
        ("change the two callers", "delete the two callers", "quote", None),
        ('- User: "no, leave', '- User: "no, raise', "quote", "no, raise the timeout alone"),
        ('said: "no, leave', 'said: "yes, leave', "quote", "yes, leave the timeout alone"),
        ('- "yes, both" — answering: Shall', "- They want it blue — Shall", "quote", None),
        ("rename `Foo` to", "rename `Fooo` to", "code", "Fooo"),
        ("`needle-in-the-middle`", "`needle-in-the-haystack`", "code", "needle-in-the-haystack"),
        ("thread: `src/core/auth.py`", "thread: `src/core/lib.py`", "code", "src/core/lib.py"),
        ("`handle_login`", "`handle_logout`", "code", "handle_logout"),
        ("`KeyError: 'x'`", "`KeyError: 'y'`", "code", "KeyError: 'y'"),
        ("`/home/dev/proj`", "`/home/dev/prod`", "code", "/home/dev/prod"),
        ("`Bar`. [#2]", "`Bar`. [#2, #77]", "entry", "#77"),
        ("> **Plan**", "> **Plans**", "excerpt", "**Plans**"),
        ("> It stays. You could", "> It goes. You could", "excerpt", None),
        ("run `npm publish` yourself", "run `npm unpublish` yourself", "excerpt", None),
        ("> - keep the **old** API", "> - keep the **older** API", "excerpt", None),
        ("> make deploy", "> make undeploy", "excerpt", "make undeploy   STAGE=dev"),
        ("- [#9]:", "- [#99]:", "entry", "#99"),
        ("old API … three", "old API … four", "quote", None),
        ("API … three partners", "API … I will rename `Foo`", "quote", None),
    ],
)  # fmt: skip
def test_what_was_falsified_is_found(
    thread: Thread, true: str, false: str, kind: str, text: str | None
) -> None:
    """One changed line is one invention, of its kind, and nothing else."""
    brief = BRIEF.replace(true, false, 1)
    found = of(brief, thread)

    assert brief != BRIEF
    assert [kind] == [k for k, _ in found]
    assert text in (None, found[0][1])


@pytest.mark.parametrize(
    ("true", "same"),
    [
        ("whatever happens: three partners use it", "whatever happens …"),
        ("> It stays. You could run", "> You could run"),
        ("> […]\n", ""),
        ("> - keep the **old** API", "> keep the old API"),
        ("> ```sh\n", "> ~~~\n"),
        ("> make deploy   STAGE=dev", "> make [REDACTED:token] STAGE=dev"),
        ("the old API … three", "the old API … whatever happens: three"),
        ("`make deploy STAGE=dev` — ok", "`make deploy STAGE=dev …` — ok"),
        ("`make deploy STAGE=dev`", "`make deploy …`"),
        ("`make deploy STAGE=dev`", "`cd deploy && make deploy STAGE=dev`"),
        ("- src/core/auth.py", "- core/auth.py"),
        ("- src/core/auth.py", "- /home/dev/proj/src/core/auth.py"),
        ("`make deploy STAGE=dev`", "`make deploy STAGE=[REDACTED:password]`"),
        ("- src/core/auth.py", "- src/[REDACTED:token]/auth.py"),
        ("three partners use it", "three [REDACTED:token] use it"),
        ("rename `Foo` to", "rename `[REDACTED:token]` to"),
        ("rename `Foo` to", "rename `retry_after` to"),
    ],
)  # fmt: skip
def test_what_only_looks_different_is_no_invention(thread: Thread, true: str, same: str) -> None:
    """Cut texts, tails of paths, placeholders and code of the goal stand up."""
    brief = BRIEF.replace(true, same, 1)

    assert brief != BRIEF
    assert of(brief, thread) == []


def test_the_finding_names_its_section(thread: Thread) -> None:
    """An invention says under which heading it stands, and the same one comes once."""
    brief = BRIEF.replace("- `make", "- `rm -rf build`\n- `rm -rf build`\n- `make")

    assert [InventedClaim("Relevant Commands", "rm -rf build", "command")] == find_invented(
        brief, thread
    )


def test_items_that_share_a_line_are_each_looked_up(thread: Thread) -> None:
    """Behind `also:` every path and every command has to stand in the thread."""
    brief = "## Relevant Files\n- also: src/core/auth.py [#3, #4], src/b.py, core/auth.py [#3]\n"
    brief += (
        "## Relevant Commands\n- also: `pytest -q tests` [#4], `pytest -q` [#88], `make deploy …`\n"
    )

    assert of(brief, thread) == [("path", "src/b.py"), ("entry", "#88"), ("command", "pytest -q")]


def test_a_placeholder_hides_no_second_invention(thread: Thread) -> None:
    """What stands around a placeholder must stand in the thread, in that order."""
    brief = BRIEF.replace("`make deploy STAGE=dev`", "`make [REDACTED:x] STAGE=prod`")

    assert of(brief, thread) == [("command", "make [REDACTED:x] STAGE=prod")]


def test_a_brief_without_its_fence_is_read_up_to_the_goal(thread: Thread) -> None:
    """An edited brief is judged too, and its goal is the user's own."""
    edited = BRIEF.replace("<record-of-the-past>\n", "").replace("</record-of-the-past>\n", "")

    assert of(edited, thread) == []
    assert of(edited.replace("`Foo`", "`Moo`"), thread) == [("code", "Moo")]


def test_a_path_may_be_named_from_the_folder_of_the_command(tmp_path: Path) -> None:
    """`cd web && cat src/app.ts` speaks of web/src/app.ts."""
    thread = thread_of(
        ThreadBuilder("codex", CWD).user("look").shell("cd web && cat src/app.ts", "x"), tmp_path
    )
    brief = "## Relevant Files\n- {}\n"

    assert of(brief.format("web/src/app.ts"), thread) == []
    assert of(brief.format("api/src/app.ts"), thread) == [("path", "api/src/app.ts")]


def test_a_command_that_the_user_refused_was_not_run(tmp_path: Path) -> None:
    """A call that was refused stands in the thread, and yet nobody ran it."""
    thread = thread_of(refused(ThreadBuilder("claude", CWD).user("clean up")), tmp_path)
    brief = "## Relevant Commands\n- `git clean -fdx`\n"

    assert [e.tool.status for e in thread.entries if e.tool] == ["refused"]
    assert of(brief, thread) == [("command", "git clean -fdx")]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("Bash git clean -fdx", []), ("Bash git clean …", []), ("Bash git [REDACTED:x] -fdx", []),
        ("Bash git clean -f", ["Bash git clean -f"]), ("Bash pytest -q tests", ["Bash pytest -q tests"]),
        ("git clean -fdx", ["git clean -fdx"]), ("Bash git cle …", ["Bash git cle …"]),
    ],
)  # fmt: skip
def test_what_is_told_as_refused_was_refused(told: str, found: list[str], tmp_path: Path) -> None:
    """The tool with its command, cut or not; a call that ran was not refused."""
    thread = thread_of(with_refusal(talk("claude")), tmp_path)
    brief = f'## {ASKED_FOR}\n- "not that way, ask me first" — refusing: {told} [#11, #12]\n'

    assert of(brief, thread) == [("command", text) for text in found]


def test_a_command_of_a_longer_line_was_run(tmp_path: Path) -> None:
    """Each simple command of a line, behind a keyword and before a redirection too; half of one was not."""
    line = "cd web && CI=1 npm test -- -u 2>&1 | tail -3; for x in a b; do make $x; done > log.txt"
    thread = thread_of(ThreadBuilder("claude", CWD).user("go").shell(line, "ok"), tmp_path)
    brief = "## Relevant Commands\n- `{}`\n"

    for ran in ("npm test -- -u", "CI=1 npm test -- -u", "tail -3", "make $x", "npm test …"):
        assert of(brief.format(ran), thread) == []
    for never in ("npm test", "npm test -- -u x", "test -- -u", "make", "make $x; done;", "npm tes …"):  # fmt: skip
        assert of(brief.format(never), thread) == [("command", never)]


def test_a_quoted_line_may_be_of_a_harnesss_summary_or_a_report(tmp_path: Path) -> None:
    """Whatever entry it stands in; a line of the goal alone is none of the thread's."""
    builder = ThreadBuilder("claude", CWD).user("go").compaction("The queue is **empty** now.")
    thread = thread_of(builder.shell("cat a.txt", "one\n  two words\n"), tmp_path)
    brief = "## Context (from previous thread)\n- [#2]:\n> {}\n"

    assert of(brief.format("The queue is empty now."), thread) == []
    assert of(brief.format("two words"), thread) == []
    assert of(brief.format("The queue is full now."), thread) == [
        ("excerpt", "The queue is full now.")
    ]


@pytest.mark.parametrize("harness", ["claude", "codex", "pi"])
def test_words_of_the_user_may_come_from_an_earlier_brief(harness: str, tmp_path: Path) -> None:
    """What an earlier brief quotes of the user is theirs, as its goal is; its prose is not."""
    thread = thread_of(
        ThreadBuilder(harness, CWD).handoff(BRIEF).user("go on").assistant("On it."), tmp_path
    )
    brief = "## What the user asked for and ruled\n- {}\n"

    assert of(brief.format('"no, leave the timeout alone"'), thread) == []
    assert of(brief.format('"make retry_after an argument"'), thread) == []
    assert of(brief.format('"I will rename Foo to Bar."'), thread) == [
        ("quote", "I will rename Foo to Bar.")
    ]


@pytest.mark.parametrize("harness", ["claude", "codex", "pi", "gemini", "opencode", "copilot"])
def test_the_briefs_of_the_tool_itself_invent_nothing(harness: str, tmp_path: Path) -> None:
    """A brief without a model is true to the letter in every harness."""
    path = talk(harness).write(tmp_path)
    made = pipeline.make_handoff(
        detect_harness(path),
        path,
        Goal(text=GOAL),
        LoadedSettings(Settings()),
        handoff_id="0123abcd" * 4,
        to="",
    )

    assert find_invented(made.context, made.thread, GOAL) == []
    assert "Relevant Files" in made.context


def test_a_heading_with_stars_in_it_is_told_from_its_paragraph() -> None:
    """`## Why `*args` breaks it` stands before its paragraph, and is no invention."""
    text = "## Why `*args` breaks it\n\nThe call binds too late.\n\n## 2 * 3 is 6\n\n- one"
    entries = (Entry(ref=1, kind="user", text="Why?"), Entry(ref=2, kind="assistant", text=text))
    read = Thread(harness="", id="", path="", cwd="/p", entries=entries)
    quoted = "> **Why `*args` breaks it:** The call binds too late.\n> **2 * 3 is 6**\n> - one"
    brief = f"## Context\n- [#2]:\n{quoted}"

    assert find_invented(brief, read) == []
