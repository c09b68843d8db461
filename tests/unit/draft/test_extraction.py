"""Whoever is asked: question, one stricter retry, checks, one repair, and facts for the rest."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from making import GOAL, ID, thread_of

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import brief
from tasuki.draft.authors import fallback
from tasuki.draft.authors.author import AuthorReply, AuthorTask, AuthorTurn
from tasuki.draft.facts.derive import derive_facts
from tasuki.errors import AuthorFailed, Cancelled, ModelUnavailable
from tasuki.model import Draft, Goal
from tasuki_testing import ThreadBuilder

KEYS = (
    "relevantFiles", "relevantCommands", "relevantInformation", "decisions", "openQuestions",
    "failedApproaches", "constraints",
)  # fmt: skip


RULING = '"Never change the public API of the upload client, please."'
QUESTION = '"Is the jitter configurable yet?"'
"""What the user of `Bench` ruled first and asked last."""


def said(**sections: Any) -> str:
    """A structured answer with these sections, the others empty."""
    state = {"done": [], "inProgress": [], "notWanted": []}
    whole: dict[str, Any] = {key: [] for key in KEYS} | {"state": state}
    return json.dumps(whole | sections)


def item(text: str, *refs: int) -> dict[str, Any]:
    """One sentence with its refs."""
    return {"text": text, "refs": list(refs)}


class Scripted:
    """An author that answers from a list; an exception in it is raised."""

    name = "model"
    first_whole = 1

    def __init__(self, *answers: str | Exception, shape: Literal["structured", "markdown"]) -> None:
        self.answers = list(answers)
        self.shape = shape
        self.asked: list[tuple[AuthorTurn, ...]] = []
        self.closed = False

    def build_opening(self) -> str:
        return "the question"

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        self.asked.append(tuple(turns))
        answer = self.answers.pop(0) if self.answers else said()
        if isinstance(answer, Exception):
            raise answer
        return AuthorReply(
            answer, model="local/scripted", input_tokens=100, output_tokens=10, price=0.5
        )

    def close(self) -> None:
        self.closed = True


class Bench:
    """One small thread, and drafts of it in the words of a scripted author."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.thread = thread_of(
            ThreadBuilder("claude", cwd="/home/dev/proj")
            .user("Never change the public API of the upload client, please.")
            .assistant(
                "The upload client retries three times; the delay is fixed in `RETRY_DELAY`."
            )
            .edit("src/upload/client.py", "RETRY_DELAY = 1", "RETRY_DELAY = 2")
            .shell("pytest -q tests/test_upload.py", "1 failed\nE  TimeoutError: late", 1)
            .assistant("A global session was tried and rejected: it leaks sockets under load.")
            .shell("pytest -q tests/test_upload.py", "3 passed")
            .user("Is the jitter configurable yet?")
            .assistant("Not yet; npm run docs would tell."),
            folder,
        )
        self.folder, self.patch = folder, patch
        self.asker = Scripted(shape="structured")

    def draft(
        self,
        *answers: str | Exception,
        shape: Literal["structured", "markdown"] = "structured",
        **settings: Any,
    ) -> tuple[Draft, list[str]]:
        """What the ladder makes of an author's answers."""
        self.asker = Scripted(*answers, shape=shape)
        self.patch.setitem(fallback.ASKERS, "model", lambda task, loaded: (self.asker, []))
        return self.with_author("model", **settings)

    def with_author(self, author: str, **settings: Any) -> tuple[Draft, list[str]]:
        """What the ladder makes of the thread, beginning with an author."""
        loaded = LoadedSettings(Settings(author=author, **settings))  # type: ignore[arg-type]
        goal = Goal(text=GOAL)
        task = AuthorTask(
            self.thread, derive_facts(self.thread), goal, loaded.settings.list_limits()
        )
        return fallback.write_draft(task, Draft(goal=goal), loaded, ID)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A thread and its authors."""
    return Bench(tmp_path, monkeypatch)


def kinds(draft: Draft) -> dict[str, str]:
    """What was dropped, and the kind of reason."""
    return {d.text: d.kind for d in draft.dropped}


def test_numbers_become_the_facts_they_mean(bench: Bench) -> None:
    """Files, commands and words of the user are chosen by number and stand to the letter."""
    draft, _ = bench.draft(
        said(
            relevantFiles=[{"file": "F1", "reason": "holds `RETRY_DELAY`", "refs": [3]}],
            relevantCommands=[{"command": "C1", "reason": "checks F1", "refs": []}],
            constraints=[item("U1")],
            decisions=[item("F1 keeps `RETRY_DELAY` as a constant of the upload client.", 3)],
        )
    )

    assert [(f.path, f.reason) for f in draft.files] == [
        ("src/upload/client.py", "holds `RETRY_DELAY`"),
        ("tests/test_upload.py", ""),
    ]
    assert draft.commands[0].command == "pytest -q tests/test_upload.py"
    assert draft.commands[0].note.startswith("checks `src/upload/client.py`; ")
    assert draft.asked[0].text == RULING
    assert draft.decisions[0].text.startswith("`src/upload/client.py` keeps")
    assert draft.dropped == ()


def test_what_the_thread_does_not_hold_is_dropped_by_kind(bench: Bench) -> None:
    """Invented paths, commands, quotes, values and unsupported sentences go, each with its reason."""
    invented = said(
        relevantFiles=[
            {"file": "src/upload/retry.py", "reason": "", "refs": [3]},
            {"file": "F1", "reason": "see docs/upload/notes.md", "refs": []},
            {"file": "F2", "reason": "was committed with the retries", "refs": []},
            {"file": "F99", "reason": "", "refs": []},
        ],
        relevantCommands=[
            {"command": "npm run deploy", "reason": "", "refs": [4]},
            {"command": "npm run docs", "reason": "merely mentioned", "refs": [8]},
        ],
        relevantInformation=[
            item("`MAX_JITTER` bounds the delay of the upload client.", 2),
            item("The upload client is described in src/upload/README.md.", 2),
            item("The user said “make the delay of the client two minutes”.", 1),
            item("Deploy the upload client with npm run deploy --prod.", 2),
            item("Postgres migrations are applied by the nightly cron job.", 4),
            item("The session of the upload client leaks sockets.", 5),
        ],
        nextSteps=[item("Write src/upload/jitter.py and run npm run jitter.", 2)],
    )
    draft, _ = bench.draft(invented, invented)

    assert kinds(draft) == {
        "src/upload/retry.py": "path",
        "see docs/upload/notes.md": "path",
        "was committed with the retries": "refuted",
        "F99": "path",
        "npm run deploy": "command",
        "npm run docs": "command",
        "The upload client is described in src/upload/README.md.": "path",
        "The user said “make the delay of the client two minutes”.": "user",
        "Deploy the upload client with npm run deploy --prod.": "command",
        "Postgres migrations are applied by the nightly cron job.": "unsupported",
    }
    assert len(draft.dropped) == len(kinds(draft)), "each once, though both answers said it"
    assert [c.text for c in draft.context] == [
        "Write src/upload/jitter.py and run npm run jitter. (`npm run jitter` does not occur in the thread; unverified)",
        "`MAX_JITTER` bounds the delay of the upload client. (`MAX_JITTER` does not occur in the thread; unverified)",
        "The session of the upload client leaks sockets.",
    ]
    assert [(f.path, f.reason) for f in draft.files] == [
        ("src/upload/client.py", "`RETRY_DELAY`"),
        ("tests/test_upload.py", ""),
    ]
    assert draft.authorship.dropped["path"] == 7, (
        "in both answers, but for F1, which was chosen already"
    )


def test_what_falls_through_a_check_takes_no_place(bench: Bench) -> None:
    """Behind as many lies as a section has places, a true item still finds one."""
    lies = [item(f"`LIE_NUMBER_{n}` is used by the upload client.", 2) for n in range(12)]
    draft, _ = bench.draft(
        said(relevantInformation=[*lies, item("The upload client retries three times.", 2)])
    )

    assert [c.text for c in draft.context][3:] == ["The upload client retries three times."]
    assert (set(kinds(draft).values()), len(draft.dropped)) == ({"value"}, 9)


def test_a_repair_is_shown_what_was_dropped_and_what_that_cites(bench: Bench) -> None:
    """One more question holds the drops with their entries, and no thread; its answer is added, not trusted."""
    draft, _ = bench.draft(
        said(relevantInformation=[item("The upload client reads src/upload/seed.py.", 2)]),
        said(
            constraints=[item("U1")],
            relevantInformation=[
                item("The delay of the upload client is fixed in `RETRY_DELAY`.", 2),
                item("The upload client reads src/upload/other.py.", 2),
            ],
        ),
    )
    ((turn,),) = bench.asker.asked[1:]
    question = turn.text

    assert "`src/upload/seed.py` does not occur in the thread" in question
    assert "[#2 assistant] The upload client retries three times" in question
    assert GOAL in question
    assert "Never change the public API" not in question
    assert [c.text for c in draft.context] == [
        "The delay of the upload client is fixed in `RETRY_DELAY`."
    ]
    assert [a.text for a in draft.asked] == [RULING, QUESTION]
    assert draft.authorship.requests == 2
    assert draft.authorship.price == 1.0
    assert bench.asker.closed


def test_an_answer_without_faults_is_not_asked_again(bench: Bench) -> None:
    """A good answer costs one request."""
    draft, _ = bench.draft(
        said(constraints=[item("U1")], relevantFiles=[{"file": "F1", "reason": "", "refs": [3]}])
    )

    assert draft.authorship.requests == 1
    assert (draft.authorship.input_tokens, draft.authorship.output_tokens) == (100, 10)


def test_an_answer_that_chooses_no_file_is_not_asked_again(bench: Bench) -> None:
    """Files are derived without the author, so their absence is no fault of its answer."""
    true = item("The upload client retries three times.", 2)
    draft, _ = bench.draft(said(constraints=[item("U1")], relevantInformation=[true]))

    assert draft.authorship.requests == 1
    assert [f.path for f in draft.files] == ["src/upload/client.py", "tests/test_upload.py"]


def test_words_of_the_user_that_stand_in_the_context_are_not_asked_for(bench: Bench) -> None:
    """A wish that the author chose as called off or under way is there."""
    state = {"done": [], "inProgress": [], "notWanted": [item("U1")]}
    draft, _ = bench.draft(said(state=state))

    assert draft.authorship.requests == 1
    assert [(c.label, c.text) for c in draft.context] == [("Not wanted any more, the user", RULING)]


def test_a_failed_repair_leaves_the_first_answer(bench: Bench) -> None:
    """What stood up to the checks stays, whatever becomes of the second question."""
    for second in ("not JSON at all", AuthorFailed("gone")):
        draft, _ = bench.draft(
            said(decisions=[item("A global session leaks sockets under load.", 5)]), second
        )

        assert [d.text for d in draft.decisions] == ["A global session leaks sockets under load."]
        assert draft.authorship.author == "model"


def test_one_stricter_request_follows_an_unusable_answer(bench: Bench) -> None:
    """The second request says what was wrong; the answer to it is taken."""
    good = said(constraints=[item("U1")], relevantFiles=[{"file": "F1", "reason": "", "refs": [3]}])
    draft, _ = bench.draft("I would rather chat.", good)

    assert "it holds no JSON object" in bench.asker.asked[1][-1].text
    assert bench.asker.asked[1][1] == AuthorTurn("assistant", "I would rather chat.")
    assert draft.authorship.author == "model"


@pytest.mark.parametrize("bad", ["", "nope"])
def test_two_unusable_answers_are_a_failure_with_its_reason(bench: Bench, bad: str) -> None:
    """The next author down writes, and says why; with `strict` it is an error."""
    draft, told = bench.draft(bad, bad)

    assert draft.authorship.author == "offline"
    assert draft.files
    assert "could not be read, nor the one to a stricter request" in told[0]
    assert draft.authorship.fell[0].startswith("model: ")
    with pytest.raises(AuthorFailed):
        bench.draft(bad, bad, strict=True)


def test_an_answer_of_which_nothing_stands_is_a_failure(bench: Bench) -> None:
    """A brief is not signed by an author who said nothing true."""
    lies = said(decisions=[item("We moved to Kubernetes last week.", 2)])
    draft, told = bench.draft(lies, lies)

    assert draft.authorship.author == "offline"
    assert "Nothing in the model's answer passed the checks" in told[0]


def test_a_cancellation_is_no_failure(bench: Bench) -> None:
    """What somebody broke off is not done by somebody else instead."""
    with pytest.raises(Cancelled):
        bench.draft(Cancelled("broken off"))


def test_a_cancellation_further_down_is_none_either(bench: Bench) -> None:
    """Also where the agent failed before: the model that was broken off is not replaced."""

    def failing(task: AuthorTask, loaded: LoadedSettings) -> Any:
        raise AuthorFailed("The agent sleeps.")

    bench.patch.setitem(fallback.ASKERS, "agent", failing)
    bench.asker = Scripted(Cancelled("broken off"), shape="structured")
    bench.patch.setitem(fallback.ASKERS, "model", lambda task, loaded: (bench.asker, []))
    with pytest.raises(Cancelled):
        bench.with_author("agent")
    assert bench.asker.closed


def test_the_markdown_shape_is_checked_and_repaired_the_same_way(bench: Bench) -> None:
    """Items without refs are cited by what bears them."""
    first = "## Goal\n- x\n\n## Key Decisions\n- A global session was rejected: it leaks sockets under load.\n- The client reads docs/kafka.md."
    second = "## Constraints & Preferences\n- U1\n\n## Critical Context\n- (none)\n"
    draft, _ = bench.draft(first, second, shape="markdown")

    assert [(d.text, d.refs) for d in draft.decisions] == [
        ("A global session was rejected: it leaks sockets under load.", (5,))
    ]
    assert "docs/kafka.md" in bench.asker.asked[1][-1].text
    assert [a.text for a in draft.asked] == [RULING, QUESTION]
    assert kinds(draft)["The client reads docs/kafka.md."] == "path"


def test_facts_fill_what_the_author_left_out(bench: Bench) -> None:
    """State, the user's words, files and steps come from the thread; nobody guesses at questions."""
    draft, _ = bench.draft(
        said(relevantInformation=[item("The upload client retries three times.", 2)]), said()
    )

    assert [f.path for f in draft.files] == ["src/upload/client.py", "tests/test_upload.py"]
    assert any(
        i.label == "Tests" and i.text.startswith("`pytest -q tests/test_upload.py` passed")
        for i in draft.state
    )
    assert any("public API" in a.text for a in draft.asked)
    assert draft.questions == ()
    assert draft.decisions == ()
    assert [c.text for c in draft.context] == ["The upload client retries three times."]
    authored = 1
    items = sum(len(getattr(draft, section)) for section in fallback.SECTIONS)
    assert draft.authorship.filled == items - authored >= 3


@pytest.mark.parametrize("shape", ["structured", "markdown"])
def test_facts_are_the_same_whoever_writes(
    bench: Bench, shape: Literal["structured", "markdown"]
) -> None:
    """Where the thread stopped, the state of the work and the last steps do not hang on the author."""
    answers = {
        "structured": said(
            relevantInformation=[item("The upload client retries three times.", 2)],
            decisions=[item("A global session was rejected: it leaks sockets under load.", 5)],
        ),
        "markdown": "## Critical Context\n- The upload client retries three times.\n"
        "## Key Decisions\n- A global session was rejected: it leaks sockets under load.",
    }
    authored, _ = bench.draft(answers[shape], shape=shape)
    offline, _ = bench.with_author("offline")

    assert authored.authorship.author == "model"
    assert [d.refs for d in authored.decisions] == [(5,)]
    for section in ("stopped", "state", "steps"):
        assert getattr(authored, section) == getattr(offline, section) != ()


def test_a_chosen_file_stands_first_and_the_ranked_ones_follow(bench: Bench) -> None:
    """It has the author's reason; every path is named once, whatever it was chosen by."""
    bench.thread = thread_of(
        ThreadBuilder("claude", cwd="/home/dev/proj")
        .user("Make the upload client retry.")
        .edit("src/upload/client.py", "RETRIES = 1", "RETRIES = 2")
        .edit("src/upload/limits.py", "LIMIT = 1", "LIMIT = 2")
        .edit("src/upload/retries.py", "DELAY = 1", "DELAY = 2")
        .assistant("The limits of the upload client are in src/upload/limits.py."),
        bench.folder,
    )
    offline, _ = bench.with_author("offline")
    ranked = [f.path for f in offline.files]
    chosen = {
        "file": "upload/limits.py",
        "reason": "holds the limits of the upload client",
        "refs": [3],
    }
    again = {"file": f"F{ranked.index('src/upload/limits.py') + 1}", "reason": "", "refs": []}
    draft, _ = bench.draft(said(relevantFiles=[chosen, again]))

    assert ranked[0] != "src/upload/limits.py"
    assert draft.files[0].path == "src/upload/limits.py"
    assert draft.files[0].reason == "holds the limits of the upload client"
    assert draft.files[1:] == tuple(f for f in offline.files if f.path != "src/upload/limits.py")
    lines = dict(brief.list_sections(draft))["Relevant Files"]
    assert lines[0] == "- src/upload/limits.py — holds the limits of the upload client [#3]"
    assert [sum(path in line for line in lines) for path in ranked] == [1, 1, 1]


def test_a_file_without_its_reason_is_still_the_authors(bench: Bench) -> None:
    """Where reasons are not wanted the author's go too, and its file is not counted as filled in."""
    chosen = {"file": "F1", "reason": "holds `RETRY_DELAY`", "refs": [3]}
    told, _ = bench.draft(said(relevantFiles=[chosen], constraints=["U1"]))
    bare, _ = bench.draft(
        said(relevantFiles=[chosen], constraints=["U1"]), include_file_reasons=False
    )

    assert told.files[0].reason == "holds `RETRY_DELAY`"
    assert {f.reason for f in bare.files} == {""}
    assert bare.authorship.filled == told.authorship.filled


def test_a_next_step_stands_in_the_context_with_its_label(bench: Bench) -> None:
    """What the author says of the state is in its own words, so it is no line of the state."""
    document = (
        "## Progress\n### In Progress\n- The delay in `RETRY_DELAY` is being changed. [#3]\n"
        "## Critical Context\n- The upload client retries three times. [#2]\n"
        "## Next Steps\n- Make the delay of the upload client configurable. [#2]"
    )
    draft, _ = bench.draft(document, shape="markdown")
    offline, _ = bench.with_author("offline")

    assert [(c.label, c.text, c.refs) for c in draft.context] == [
        ("Next step", "Make the delay of the upload client configurable.", (2,)),
        ("Under way", "The delay in `RETRY_DELAY` is being changed.", (3,)),
        ("", "The upload client retries three times.", (2,)),
    ]
    assert draft.state == offline.state
    context = dict(brief.list_sections(draft))["Context (from previous thread)"]
    assert "- Next step: Make the delay of the upload client configurable. [#2]" in context


def test_what_an_author_wrote_is_not_checked_as_if_it_were_a_fact(bench: Bench) -> None:
    """Words that stood up to the checks stay when facts are put beside them."""
    true = "The upload client is covered by `tests/test_*.py`."
    draft, _ = bench.draft(said(relevantInformation=[item(true, 4)], constraints=["U1"]))

    assert [c.text for c in draft.context] == [true]
    assert draft.dropped == ()


def test_the_budget_holds_whoever_writes(bench: Bench) -> None:
    """An author's words are cut to the budget like all others, and what went is shown as left out."""
    sentence = "The upload client retries three times; the delay is fixed, number {}."
    long = said(relevantInformation=[item(sentence.format("x" * n), 2) for n in range(12)])
    chosen = said(relevantInformation=json.loads(long)["relevantInformation"], constraints=["U1"])
    draft, _ = bench.draft(chosen, said(), budget=400)

    assert brief.count_context_tokens(brief.render_context(draft, ID)) <= 400
    assert draft.left_out
    assert RULING in [a.text for a in draft.asked], "it was chosen"


def test_the_way_leads_down_agent_model_offline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each author that fails hands over to the next one; all reasons are kept."""

    def failing(why: Exception) -> Callable[..., Any]:
        def make(task: AuthorTask, loaded: LoadedSettings) -> Any:
            raise why

        return make

    monkeypatch.setitem(fallback.ASKERS, "agent", failing(AuthorFailed("The agent sleeps.")))
    monkeypatch.setitem(fallback.ASKERS, "model", failing(ModelUnavailable("No model selected.")))
    draft, told = bench.with_author("agent")

    assert draft.authorship.author == "offline"
    assert draft.authorship.fell == ("agent: The agent sleeps.", "model: No model selected.")
    assert [t.rpartition(". ")[2] or t for t in told]
    with pytest.raises(ModelUnavailable):
        bench.with_author("model")
    with pytest.raises(AuthorFailed):
        bench.with_author("agent", strict=True)
