"""What an agent was handed stays known in the handoffs after its own, whichever way it was handed."""

from pathlib import Path
from typing import Any

import pytest
from fixture_threads import HARNESSES, adapter
from fleet_rows import agent, handoff

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft.facts.earlier_handoffs import LABELS, fold_earlier_handoffs
from tasuki.fleet import prompts
from tasuki.fleet.handoff import documents
from tasuki.fleet.handoff.outgoing_steps import write_from_thread
from tasuki.harness.registry import detect_harness
from tasuki.typed_prompts import HANDOFF_CLOSING
from tasuki_testing import ThreadBuilder

WISH = "never use port 80, the proxy owns it"
NAME = "20260714T120000-5e55104d.md"
OWN = """\
# Handoff

## What I was working on

The gateway of the upload service.

## What the user asked for and ruled out

- The user said: never use port 80, the proxy owns it
- "keep the public API as it is"
- none

## Key decisions made and why

- Retries are counted per chunk, because the server
  forgets whole uploads.

## Current progress and state

Half of `src/upload.py` is done.

## Blockers encountered

1. The 429 path fails still.

### Since Monday

The staging host is down.

## Files modified

- src/upload.py: never before

~~~
## Next steps
- this is code
~~~

## Next steps and what remains

- [ ] test the 429 path

## Added from the thread by tasuki

- wish: "always run ruff before a commit" [#12]
- file: `src/net.py`, edited in the last minutes [#14]
- from earlier handoffs: "never push to main" [#1]
"""
FOLDED = {
    f"{LABELS['ruled']}The user said: never use port 80, the proxy owns it",
    '"keep the public API as it is"',
    '"always run ruff before a commit"',
    '"never push to main"',
    f"{LABELS['decided']}Retries are counted per chunk, because the server forgets whole uploads.",
    f"{LABELS['open']}The 429 path fails still.",
    f"{LABELS['open']}The staging host is down.",
    f"{LABELS['open']}test the 429 path",
}


def prompt(path: Path, **values: Any) -> str:
    """What a successor begins with."""
    return prompts.render_injection(handoff(**values), agent(), path)


def folded(builder: ThreadBuilder, folder: Path) -> list[str]:
    """What is known of earlier handoffs in a thread."""
    path = builder.write(folder / builder.file_name())
    return [q.text for q in fold_earlier_handoffs(detect_harness(path).read(path).entries)[0]]


@pytest.mark.parametrize("name", [n for n in HARNESSES if n != "aider"])
def test_a_document_that_was_read_is_folded(name: str, tmp_path: Path) -> None:
    """In the thread of every harness that records what tools print, an agent's own document counts."""
    document = tmp_path / "handoffs" / NAME
    built = ThreadBuilder(name).user(prompt(document)).read(str(document), OWN).assistant("On it.")
    thread = adapter(name).read(built.write(tmp_path / built.file_name()))
    quotes, parent = fold_earlier_handoffs(thread.entries)

    assert {q.text for q in quotes} == FOLDED
    assert {thread.entries[q.ref - 1].kind for q in quotes} == {"tool"}
    assert parent == ""


@pytest.mark.parametrize("mark", ["→", "\t", "| ", ": "])
def test_line_numbers_of_a_tool_are_not_part_of_it(mark: str, tmp_path: Path) -> None:
    """A file that is shown with a number before each line says the same."""
    shown = "\n".join(f"{n:6}{mark}{line}" for n, line in enumerate(OWN.split("\n"), 1))
    built = ThreadBuilder("claude").user(prompt(Path(f"/d/{NAME}"))).read(f"/d/{NAME}", shown)

    assert set(folded(built, tmp_path)) == FOLDED


def test_a_document_that_was_read_in_parts_is_folded(tmp_path: Path) -> None:
    """Parts of it that commands printed count together."""
    half = OWN.index("## Blockers")
    built = ThreadBuilder("codex").user(prompt(Path(f"/d/{NAME}")))
    built.shell(f"wc -l /d/{NAME}", f"60 /d/{NAME}")
    built.shell(f"sed -n '1,20p' /d/{NAME}", OWN[:half])
    built.shell(f"cd /d && sed -n '21,60p' {NAME}", OWN[half:])

    assert set(folded(built, tmp_path)) == FOLDED


def test_other_files_are_not_folded(tmp_path: Path) -> None:
    """A file that no injection prompt names is the project's own, whatever it holds."""
    other = ThreadBuilder("claude").user(prompt(Path(f"/d/{NAME}"))).read("/d/notes.md", OWN)
    alone = ThreadBuilder("claude").user(f"Read /d/{NAME}").read(f"/d/{NAME}", OWN)
    failed = ThreadBuilder("claude").user(prompt(Path(f"/d/{NAME}")))
    failed.shell(f"cat /d/{NAME}", OWN, 1)

    assert [folded(built, tmp_path) for built in (other, alone, failed)] == [[], [], []]


BRIEF = """\
# Handoff Context
[#n] names the entries an item rests on; open one with `tasuki read 0123abcd#n`.

<record-of-the-past>
## Where the thread stopped
- never told: what stopped [#8]

## State of the work
- Committed on `main`: abc1234 never push this — pushed [#8]
- Branch: `main`; nothing was committed in this thread
- Not committed yet: `a.py` [#8]
- Also changed or new in the folder, now: `never_told/` [#8]
- Pull requests, as last seen: #4 open [#8]
- Tests: `pytest` passed; nothing edited since [#8]
- Tests and Build: `make` FAILED [#8]
- Todo list, in progress: the parser [#8]
- Todo list, open: the docs [#8]
- Failed, and did not pass since: `make`: `no rule` [#8]
- Refused by the user: Bash `git push` [#8]

## What the user asked for and ruled
- "look at the parser … never use port 80, the proxy owns it … ok" [#1, #2]
- "no, leave it" — refusing: Bash git reset --hard [#4]
- "yes, only both" — answering: Shall I change the two callers, too? [#5, #9]

## Context (from previous thread)
- [#27]:
> - never told: a quoted list
> ## Key Decisions
- A sub-agent reported [#3]:
> never told
- Under way: never told, the rewrite [#8]
- Done: never told [#8]
- Not wanted any more: the toggle [#8]
- Next step: write the docs [#8]
- Other conclusions, not quoted here [#3, #4]

## Key Decisions
- Decided to use msgspec, by design [#4]

## The last steps
- never told: `ls` [#8]
</record-of-the-past>
"""
OF_BRIEF = [
    "Refused by the user: Bash `git push`",
    '"never use port 80, the proxy owns it"',
    '"no, leave it" — refusing: Bash git reset --hard',
    '"yes, only both" — answering: Shall I change the two callers, too?',
    "Not wanted any more: the toggle",
    "Decided to use msgspec, by design",
    "Goal then: write the docs",
    "Todo list, open: the docs",
    "Failed, and did not pass since: `make`: `no rule`",
    "Next step: write the docs",
]


@pytest.mark.parametrize("way", ["prompt", "document"])
def test_of_a_brief_only_what_still_binds_is_told(way: str, tmp_path: Path) -> None:
    """Rulings come first; how things stood, quoted messages and the last steps are out of date."""
    brief = f"{BRIEF}\n## Next Goal (verbatim)\nwrite the docs"
    built = ThreadBuilder("claude")
    if way == "prompt":
        built.user(brief).assistant("On it.")
    else:
        head = "# Handoff of agent 7, written from its thread\n\nReason: crash\n\n"
        built.user(prompt(Path(f"/d/{NAME}"))).read(f"/d/{NAME}", head + brief)
    path = built.write(tmp_path / built.file_name())
    quotes, parent = fold_earlier_handoffs(detect_harness(path).read(path).entries)

    told = [q.text for q in quotes]
    assert [text for text in told if not text.startswith("State then: ")] == OF_BRIEF
    assert "State then: Not committed yet: `a.py`" in told
    assert not any("in progress" in text or "never told" in text for text in told)
    assert parent == "0123abcd"


def test_a_document_in_a_sessions_context_is_folded(tmp_path: Path) -> None:
    """A document that a session wrote itself counts, with the sections added to it, and nothing after it."""
    context = (
        f"<handoff-context>\n## Constraints & Preferences\n- {WISH}\n\n## Progress\n- never told\n\n"
        '## What the user asked for and ruled\n- "keep the public API as it is" [#2]\n\n'
        "## Context (from previous thread)\n- [#3]:\n> never told\n- Next step: write the docs [#8]\n"
        f"</handoff-context>\n\n{HANDOFF_CLOSING}\n\n## Rules\n- these are the user's own words"
    )
    built = ThreadBuilder("claude").user(context).assistant("On it.")

    assert folded(built, tmp_path) == [
        f"{LABELS['ruled']}{WISH}", '"keep the public API as it is"', "Next step: write the docs",
    ]  # fmt: skip


def test_a_rule_for_all_cases_binds_though_it_forbids_nothing(tmp_path: Path) -> None:
    """A statement of the user about everything of a kind stands before an errand."""
    errand, rule = (
        '"hi, first job: the total of an invoice is wrong if a coupon is used twice"',
        ('"yes please, we write British English in everything a customer can see"'),
    )
    brief = f"# Handoff Context\n\n## What the user asked for and ruled\n- {errand} [#1]\n- {rule} [#2]\n"

    assert folded(ThreadBuilder("claude").user(brief).assistant("ok"), tmp_path) == [rule, errand]


# -- chains of a fleet -------------------------------------------------------------------


def successor(document: Path, *, harness: str = "claude") -> ThreadBuilder:
    """The thread of an agent that read its predecessor's document and worked on."""
    built = ThreadBuilder(harness).user(prompt(document))
    built.read(str(document), document.read_text()).assistant("handoff ab12cd34\nI go on.")
    for number in range(12):
        built.edit(f"src/part_{number}.py", "1", "2")
        built.shell(f"pytest tests/test_part_{number}.py", "1 passed")
        built.assistant(f"Part {number} reads its limits from the configuration now, in one place.")
    return built


def from_thread(built: ThreadBuilder, folder: Path, name: str) -> Path:
    """The document that tasuki writes of a thread."""
    folder.mkdir(parents=True, exist_ok=True)
    thread = built.write(folder / built.file_name())
    document = folder / name
    write_from_thread(
        document, agent(thread=str(thread)), handoff(from_thread=True), LoadedSettings(Settings())
    )
    return document


def by_agent(built: ThreadBuilder, folder: Path, name: str) -> Path:
    """The document that an agent writes without a word of what it was handed, as tasuki completes it."""
    folder.mkdir(parents=True, exist_ok=True)
    thread = built.write(folder / built.file_name())
    document = folder / name
    document.write_text("## What I was working on\n\nThe parts.\n\n## Next steps\n\n- the rest\n")
    documents.complete_document(document, agent(thread=str(thread)), handoff())
    return document


@pytest.mark.parametrize("first", [from_thread, by_agent])
@pytest.mark.parametrize("later", [from_thread, by_agent])
def test_the_first_agents_ruling_reaches_the_sixth(first: Any, later: Any, tmp_path: Path) -> None:
    """Whoever writes the documents, what was ruled in the first thread stands in all of them."""
    built = ThreadBuilder("claude").user(f"Build the gateway, and {WISH}.").assistant("Understood.")
    built.edit("src/gateway.py", "1", "2").assistant("The gateway listens on 8080.")
    document = first(built, tmp_path / "1", NAME)
    for number in range(2, 6):
        document = later(successor(document), tmp_path / str(number), f"{number}-{NAME}")

        assert WISH in document.read_text()


def test_what_the_brief_has_no_room_for_stands_before_it(tmp_path: Path) -> None:
    """A document from the thread names the one it began with, and hands on all that still binds."""
    rules = [
        f"never touch the folder vendor/part_{n} of the customer, it is theirs" for n in range(30)
    ]
    first = tmp_path / NAME
    first.write_text("## Rules\n\n" + "\n".join(f"- {rule}" for rule in rules))
    text = from_thread(successor(first), tmp_path / "2", f"2-{NAME}").read_text()

    assert str(first) in text
    assert [rule for rule in rules if rule not in text] == []


def test_a_secret_of_an_earlier_document_is_not_handed_on(tmp_path: Path) -> None:
    """What is handed on from a document holds no secret of it."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    first = tmp_path / NAME
    first.write_text(f"## Rules\n\n- never use the token {secret}, it belongs to the customer\n")
    written = [
        way(successor(first), tmp_path / way.__name__, NAME).read_text()
        for way in (from_thread, by_agent)
    ]

    assert [("never use the token" in text, secret in text) for text in written] == [
        (True, False)
    ] * 2


def test_what_was_said_between_two_attempts_counts(tmp_path: Path) -> None:
    """After a handoff that failed, words of the user and work are looked for in the next document."""
    path = tmp_path / NAME
    built = ThreadBuilder("claude").user("Make the retries configurable").edit("src/a.py", "1", "2")
    built.user(prompts.render_instruction(handoff(), path)).create(str(path), "").assistant(
        "Written."
    )
    built.user("Never use port 22 for the tunnel").edit("src/net.py", "22", "2222").assistant("Ok.")
    built.user(prompts.render_instruction(handoff(attempt=2), path)).assistant("Written.")
    path.write_text("## What I was working on\n\n- things\n")
    thread = built.write(tmp_path / built.file_name())
    documents.complete_document(path, agent(thread=str(thread)), handoff(attempt=2))
    added = path.read_text().partition(documents.ADDED)[2]

    assert ("Never use port 22" in added, "src/net.py" in added) == (True, True)
    assert (NAME in added, "change nothing else" in added) == (False, False)


def test_the_instruction_of_a_cancelled_handoff_is_no_wish(tmp_path: Path) -> None:
    """What tasuki typed for another handoff does not get into this document as the user's words."""
    path, other = tmp_path / NAME, handoff(id="99aa88bb" * 4)
    built = ThreadBuilder("claude").user("Make the retries configurable").edit("src/a.py", "1", "2")
    built.user(prompts.render_instruction(other, path)).create(str(path), "x").assistant("Written.")
    built.user("go on").edit("src/b.py", "1", "2").assistant("Ok.")
    path.write_text("## What I was working on\n\n- things\n")
    thread = built.write(tmp_path / built.file_name())
    documents.complete_document(path, agent(thread=str(thread)), handoff())
    added = path.read_text().partition(documents.ADDED)[2]

    assert ("src/b.py" in added, "change nothing else" in added, NAME in added) == (
        True,
        False,
        False,
    )
