"""Texts made to keep a pattern busy: what reads a thread ends with all of them."""

import subprocess
import sys

import pytest

SETUP = """
import sys
from tasuki.draft import brief
from tasuki.draft.facts import commands, derive as facts, earlier_handoffs, files, mentions, open_statements, state, statements
from tasuki.draft.repository import reader, uncommitted
from tasuki.draft.runs import command_kinds
from tasuki.draft.rank import block_worth, blocks, excerpts, goal_object, guides, history, printed
from tasuki.draft.text import language_cues as said, entries as turns, pasted, split as text
from tasuki.draft.authors import offline
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.rank.relevance import FileRanks
from tasuki.draft.rank.relevance import Relevance
from tasuki_evals.cases import fidelity
from tasuki.harness.reading import answers, jsonl
from tasuki.harness.reading.speakers import SpeakerGate
from tasuki.model import Draft, Entry, FileChange, Goal, Item, Thread, ToolCall
from tasuki.shell import split_commands, strip_assignments
M = int(sys.argv[1])
LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}
def user(ref, said, origin="typed"): return Entry(ref=ref, kind="user", text=said, origin=origin)
def agent(ref, said): return Entry(ref=ref, kind="assistant", text=said)
def tool(ref, status="ok", **call): return Entry(ref=ref, kind="tool", tool=ToolCall(id="1", name="x", status=status, **call))
def thread(*entries): return Thread(harness="", id="", path="", cwd="/p", entries=entries)
HARD = (" " * M + "x", "\\n" * M + "x", '"' * M, "\\"'" * (M // 2), "1" * M, "1," * (M // 2), "mv " * (M // 3),
        "\\nmv " * (M // 4), ' -m "' * (M // 5), " -m" * (M // 3), "[" * M, "[#1" * (M // 3), "1." * (M // 2),
        "1. a\\n" * (M // 5), "**a" * (M // 3), "+" * M, "a/" * (M // 2) + "b.py", "$" * M, "a.B" * (M // 3),
        "ok, " * (M // 4), "do " * (M // 3), "-s " * (M // 3), ". a" * (M // 3), "(" * M,
        "- a\\n" * (M // 4), "\\n".join(" " * (n % 900) + "- a" for n in range(M // 450)), "- a\\n\\n" * (M // 5), "# a\\n" * (M // 4), "|a" * (M // 2) + "|", "| a | b |\\n" * (M // 10),
        "- - " * (M // 4), "_ " * (M // 2), "```\\n" * (M // 4), "- ```\\n" * (M // 6), "> " * (M // 2), "[…]\\n" * (M // 4), "a:\\n- b\\n" * (M // 7), "a" + " " * M + "x",
        "<record-of-" * (M // 11), "</ " * (M // 3), '"a"="' * (M // 5), "Error: " * (M // 7), "fooError:" * (M // 9), "leave a b " * (M // 10), "`aaaaaa" * (M // 7))
"""
CASES = {
    "commands": """
for hard in HARD:
    for command in (hard, f"mv {hard}", f"pnpm {hard} test", f"git commit{hard}", f"ls{hard}x", f"make {hard[:3_900]}"):
        runs = commands.list_runs([tool(1, kind="shell", command=command)])
        commands.build_command_facts(runs), commands.list_commit_subjects(runs), commands.split_steps(command)
        command_kinds.is_help_or_version(command), commands.find_last_checks(runs)
""",
    "files": """
for hard in HARD:
    entries = tool(1, kind="shell", command=f"mv a b{hard}mv "), tool(2, kind="read", paths=(hard,)), agent(3, hard), user(4, hard)
    read = thread(*entries)
    runs = commands.list_runs(entries)
    found = files.build_file_facts(read, runs)
    mentions.add_mentions(found, mentions.list_mentions(read, found, runs), "/p")
""",
    "mentions": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
def find(entries, paths):
    used = [files.FileFact(path=path) for path in paths]
    mentions.add_mentions(used, mentions.list_mentions(thread(*entries), used, []), "/p")
find([agent(n, "+" * 20_000) for n in range(200)], ())
find([agent(n, "a/" * 9_000 + f"b{n}.py") for n in range(200)], ("c/" * 400_000 + "d.py",))
""",
    "ranks": """
for hard in HARD:
    entries = tool(1, kind="read", paths=(hard[:9_000],)), tool(2, kind="read", paths=("a/" * 2_000 + "b.py",)), agent(3, hard[:90_000])
    read = thread(*entries)
    ranks = Relevance(read, facts.derive_facts(read, None, hard), hard).files
    ranks.rank_files(), [ranks.compute_terms(f) for f in ranks.candidates]
""",
    "blocks": """
for hard in HARD:
    for message in (f"- {hard}", f"# {hard}", f"|{hard}|", f"a:\\n\\n**{hard}**\\n```\\n{hard}\\n```"):
        blocks.split_blocks(message, 1)
""",
    "excerpts": """
for hard in HARD:
    excerpts.weigh_telling_words(hard), excerpts.weigh_cue(hard), excerpts.measure_block(hard)
    cut = blocks.split_blocks(hard, 1)[:4_000]
    picker = excerpts.ExcerptPicker(cut, excerpts.weigh_words(cut, [hard]))
    picker.note_text(hard)
    picked, _ = picker.pick_blocks(range(len(cut)), 6_000, lambda block: 1.0)
    list(excerpts.quote_blocks(cut, picked))
""",
    "rulings": """
for hard in HARD:
    entries = agent(1, hard), user(2, hard), tool(3, "refused", kind="shell", command=hard), user(4, f"no, never {hard}"), user(5, f'"Which?"="{hard}"', "answer")
    read = thread(*entries)
    derived = facts.derive_facts(read, None, hard)
    history.quote_rulings(turns.split_turns(entries), derived, derived.statements, Relevance(read, derived, hard), 6_000)
""",
    "steps": """
for hard in HARD:
    changed = tool(1, kind="edit", changes=(FileChange(path=hard[:5_000], kind="edit", old=hard, new=hard),))
    entries = changed, *(tool(n, status, kind="shell", command=c, output=hard) for n, (status, c) in enumerate(
        [("ok", hard), ("error", f"make {hard}"), ("aborted", "make"), ("ok", f"pytest {hard}")], 2))
    history.list_last_steps(thread(*entries), commands.list_runs(entries), {}, 9)
""",
    "shell": """
for hard in HARD:
    for line in (hard[:100_000], f"cat <<E\\n{hard[:100_000]}", f"$({hard[:100_000]}", f"case x in {hard[:100_000]}", f"Get-Item '{hard[:100_000]}"):
        split_commands(line), split_commands(line, powershell=True), strip_assignments(line)
    command_kinds.strip_variables(f"env {hard}"), command_kinds.find_check_kind(hard[:20_000]), command_kinds.drop_here_documents(f"<<E {hard}")
""",
    "repository": """
for hard in HARD:
    told = (f"git {hard} commit -m {hard}", f"[main 1234567] {hard}"), ("git push", hard), ("gh pr view", f"https://x.org/a/b/pull/{hard}"), ("git commit", f"Commit 1234567 {hard}"), (
        "jj commit -m x", f"Working copy {hard}"), ("git log; git status; git branch", f"* {hard}"), (f"git check-ignore -v {hard}", hard)
    entries = [tool(n, kind="shell", command=line, output=output) for n, (line, output) in enumerate(told, 1)]
    reader.read_repository(entries, "main", "/p"), uncommitted.find_ignored(entries)
""",
    "brief": """
for hard in HARD:
    text = brief.render_context(Draft(goal=Goal(hard), context=(Item(hard), Item(f"a\\n{hard[:60_000]}")), stopped=(Item(f"<{hard[:60_000]}"),)), "ab" * 16)
    brief.split_brief(brief.join_brief(text, hard)), brief.find_handoff_id(hard), list(fidelity.parse_lines(text))
""",
    "fidelity": """
for hard in HARD:
    read = thread(user(1, hard), agent(2, hard[:90_000]), tool(3, kind="shell", command=hard[:90_000], output=hard[:90_000]))
    line = " ".join(hard[:200].split())
    said = "\\n".join(f"## {section}\\n- also: {line}\\n- \\"{line}\\" — refusing: {line}\\n- {hard[:3_000].split(chr(10))[0]}\\n> {line}" for section in ("Context", fidelity.ASKED, fidelity.COMMANDS, fidelity.FILES))
    fidelity.find_invented(said, read, hard), list(fidelity.parse_lines(f"## A\\n- {hard}")), fidelity._CHANGED_FOLDER.findall(hard)
""",
    "user": """
for hard in HARD:
    stated = statements.extract_user_statements([agent(1, hard), user(2, hard), user(3, f"no, not 1 {hard}"), user(4, "option 1")])
    open_statements.find_superseded(stated), said.is_approval(hard), said.strip_talk(hard, said.is_announcement, said.is_offer), list(map(statements._SentenceNumbers(hard).take_number, (hard, hard)))
    said.is_order(hard), said.is_small_talk(hard), statements.find_answered("1.", hard), statements.find_answered(hard, hard)
""",
    "agent": """
for hard in HARD:
    statements.extract_assistant_statements([agent(1, hard)], [hard[:5]])
points_back = "That is because `foo_bar` has 5 rows. " * (M // 38)
statements.extract_assistant_statements([agent(1, points_back)], ["foo_bar"])
""",
    "earlier handoffs": """
for hard in HARD:
    brief = f"# Handoff Context\\n## Key Decisions\\n- {hard}\\n- \\"{hard}\\"\\n\\n## Next Goal (verbatim)\\n{hard}"
    earlier_handoffs.fold_earlier_handoffs([user(1, brief, "handoff")])
""",
    "state": """
for hard in HARD:
    read = thread(tool(1, kind="read", paths=("a.py",), output=f"load_config {hard}"))
    list(state.find_goal_quotes(read, f'"{hard}" "{hard[:300]}"')), list(state.find_goal_errors(read, facts.derive_facts(read).facts, f"Error: {hard}"))
    list(state.list_state_items(read, facts.derive_facts(read).facts))
""",
    "offline": """
for hard in HARD:
    for pattern in (block_worth._PASSING, block_worth._TELLS, block_worth._FINDING, block_worth._CODE_SPAN, block_worth._VALUE, offline._AGAINST, jsonl._CLIPPED, said._ORDERS_AGENTS, said._SPEAKS_FOR_USER, printed._NOTE, guides._HARD, guides._SOFT, goal_object._LABEL, goal_object._COUNTED, turns._FRAME):
        pattern.search(hard)
    for pattern in (statements.PICK, statements._PICKED, statements._OPTION):
        pattern.match(hard)
    answers.parse_answers(hard), answers.parse_answers(f'asked "{hard}'), SpeakerGate().judge(hard), SpeakerGate().judge(f"<a-b {hard}")
    read = thread(user(1, hard[:90_000]), agent(2, hard[:90_000]), tool(3, "error", kind="shell", command="make", output=hard[:90_000]), agent(4, hard[:90_000]))
    task = AuthorTask(read, facts.derive_facts(read, None, hard), Goal(hard), LIMITS)
    offline.write_offline_draft(task, Draft(goal=Goal(hard)), budget=2_500, handoff_id="ab" * 16, reasons=True, preamble=True)
""",
    "text": """
for hard in HARD:
    list(text.split_sentences(hard)), list(text.split_sentences(f"**{hard}")), pasted.extract_own_words(f"## My request for Codex:{hard}")
    text.find_error_line(f"hint: {hard}"), pasted.extract_own_words(f"# a\\n{hard}\\n\\nfound in {hard}\\nb")
""",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("length", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_a_hard_text_ends(name: str, length: int) -> None:
    """Spaces, quotes, digits, brackets and unfinished commands, tens of thousands of each, are got through."""
    done = subprocess.run(
        (sys.executable, "-c", SETUP + CASES[name], str(length)), capture_output=True, text=True, timeout=150 if length < 100_000 else 240
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-500:]
