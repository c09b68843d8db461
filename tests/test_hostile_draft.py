"""Texts made to keep a pattern busy: what reads a thread ends with all of them."""

import subprocess
import sys

import pytest

SETUP = """
from tasuki.draft import commands, facts, files, mentions, said, state, statements, text, vocabulary
from tasuki.draft.authors import offline
from tasuki.draft.features import _subject, _words
from tasuki.model import Entry, Thread, ToolCall
M = 400_000
def user(ref, said, origin="typed"): return Entry(ref=ref, kind="user", text=said, origin=origin)
def agent(ref, said): return Entry(ref=ref, kind="assistant", text=said)
def tool(ref, **call): return Entry(ref=ref, kind="tool", tool=ToolCall(id="1", name="x", status="ok", **call))
def thread(*entries): return Thread(harness="", id="", path="", cwd="/p", entries=entries)
HARD = (" " * M + "x", "\\n" * M + "x", '"' * M, "\\"'" * (M // 2), "1" * M, "1," * (M // 2), "mv " * (M // 3),
        "\\nmv " * (M // 4), ' -m "' * (M // 5), " -m" * (M // 3), "[" * M, "[#1" * (M // 3), "1." * (M // 2),
        "1. a\\n" * (M // 5), "**a" * (M // 3), "+" * M, "a/" * (M // 2) + "b.py", "$" * M, "a.B" * (M // 3),
        "ok, " * (M // 4), "do " * (M // 3), "-s " * (M // 3), ". a" * (M // 3), "(" * M)
"""
CASES = {
    "commands": """
for hard in HARD:
    for command in (hard, f"mv {hard}", f"pnpm {hard} test", f"git commit{hard}", f"ls{hard}x", f"make {hard[:3_900]}"):
        runs = commands.runs([tool(1, kind="shell", command=command)])
        commands.facts(runs), commands.subjects(runs), commands.steps(command)
        commands.asks_about_itself(command), commands.last_checks(runs)
""",
    "files": """
for hard in HARD:
    entries = tool(1, kind="shell", command=f"mv a b{hard}mv "), tool(2, kind="read", paths=(hard,)), agent(3, hard), user(4, hard)
    read = thread(*entries)
    files.with_mentions(read, files.file_facts(read, commands.runs(entries)))
""",
    "mentions": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
mentions.mentions([agent(n, "+" * 20_000) for n in range(200)], (), "/p")
mentions.mentions([agent(n, "a/" * 9_000 + f"b{n}.py") for n in range(200)], ("c/" * 400_000 + "d.py",), "/p")
""",
    "vocabulary": """
for hard in HARD:
    list(vocabulary.names(hard)), _words(hard), _subject(hard)
""",
    "user": """
for hard in HARD:
    stated = statements.of_user([agent(1, hard), user(2, hard), user(3, f"no, not 1 {hard}"), user(4, "option 1")])
    statements.superseded(stated)
    said.is_order(hard), said.is_small_talk(hard), statements.answered("1.", hard), statements.answered(hard, hard)
""",
    "agent": """
for hard in HARD:
    statements.of_assistant([agent(1, hard)], [hard[:5]])
points_back = "That is because `foo_bar` has 5 rows. " * (M // 38)
statements.of_assistant([agent(1, points_back)], ["foo_bar"])
""",
    "questions": """
for hard in HARD:
    talk = statements.Talk([agent(1, "Which one?"), user(2, f"yes {hard}"), agent(3, f"x {hard}")])
    for by_user in (False, True):
        statements.unanswered(statements.Statement("Which one?", 1 + by_user, "question", 1.0, by_user), talk)
""",
    "earlier handoffs": """
for hard in HARD:
    brief = f"# Handoff Context\\n## Key Decisions\\n- {hard}\\n- \\"{hard}\\"\\n\\n## Next Goal (verbatim)\\n{hard}"
    facts._earlier_handoffs([user(1, brief, "handoff")])
""",
    "state": """
for hard in HARD:
    list(state.last_message(thread(agent(1, hard)), "1. yup")), list(state.last_message(thread(agent(1, "1. a")), hard))
    list(state.goal_lines(thread(tool(1, kind="read", output=f"load_config {hard}")), "load_config " + hard[:5_000]))
""",
    "offline": """
for hard in HARD:
    for pattern in (offline._ERRAND, offline._AGAINST, offline._LEFT_TO_DO, offline._PLAIN_WORD):
        pattern.search(hard)
    for pattern in (offline._SUMMARY, state._LISTED, state._CODE_LINE, statements._PICK, statements._OPTION):
        pattern.match(hard)
    offline.Taken().adds(hard), state._ANSWERS.search(hard[:400])
""",
    "text": """
for hard in HARD:
    list(text.sentences(hard)), list(text.sentences(f"**{hard}")), text.own_words(f"## My request for Codex:{hard}")
    text.error_line(f"hint: {hard}")
""",
}


@pytest.mark.parametrize("name", CASES)
def test_a_hard_text_ends(name: str) -> None:
    """Spaces, quotes, digits, brackets and unfinished commands, hundreds of thousands of each, are got through."""
    done = subprocess.run(
        (sys.executable, "-c", SETUP + CASES[name]), capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stderr[-500:]
