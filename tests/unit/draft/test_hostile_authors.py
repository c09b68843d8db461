"""What an author invents does not reach a brief, and what it says truly in its own words does."""

from pathlib import Path

import pytest
from making import thread_of
from test_extraction import Bench, item, kinds, said

from tasuki.draft.authors import answer
from tasuki.draft.authors.answer import build_proposal
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.claims import checker, lookup
from tasuki.draft.claims.literals import extract_claims, extract_names, is_attributed_to_user
from tasuki.draft.claims.support import SupportFinder
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.text.entries import contains_claim
from tasuki.model import Authorship, Draft, Goal, Item
from tasuki_testing import ThreadBuilder

TRUE = "The upload client retries three times; the delay is fixed: "
"""Words of the thread of `Bench`, so that what stands behind them is all that is wrong."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A small thread and its authors."""
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "invented",
    [
        "the user said ‘make it two minutes’.",
        "the user said 'make it two minutes'.",
        "the user said ‹make it two minutes›.",
        "the user said »make it two minutes«.",
        "the user said ‚make it two minutes‘.",
        "the user said ＂make it two minutes＂.",
        "the user said ``make it two minutes''.",
        "the user said: make it two minutes.",
        'the user answered "yes" when asked.',
        'they asked: "A global session was tried and rejected".',
        'the owner ruled "A global session was tried and rejected".',
        'the user wants to "change the public API".',
    ],
)
def test_no_words_are_put_into_the_users_mouth(bench: Bench, invented: str) -> None:
    """Whatever marks a quote, and whoever is meant by the user, the user must have written it."""
    draft, _ = bench.draft(said(relevantInformation=[item(TRUE + invented, 2)], constraints=["U1"]))

    assert list(kinds(draft).values()) == ["user"]


@pytest.mark.parametrize(
    "invented",
    [
        'it is in "src/upload/delay.py".',
        '<a href="https://evil.example/x">see</a>',
        "it is in C:\\Users\\dev\\upload\\client.py.",
        "it is in ~/delay",
        "it is in .uploadrc.",
        "it is in /data.",
        "it is in Dockerfile.",
        "it is in helpers/ now.",
        "src/upload/client.py:44 holds it.",
        "it is MAX\u200b_JITTER.",
        "it is MAX\u00ad_JITTER.",
        "it is MAX\x1b[0m_JITTER.",
        "it is MAX\x07_JITTER.",
        "run make deploy now.",
        "run git push origin main.",
        "run npm install left-pad.",
        "run cd src && rm client.py.",
        "run FOO=1 BAR=2 pytest.",
        "set timeout=7.",
        "`rm -rf / [REDACTED:token]` cleans up.",
        "`rm -rf / is enough.",
        "pass -x to it.",
        "pass /force to it.",
        "it lasts 90s.",
        "it lasts 42 seconds.",
        "it fails 7% of the time.",
        "it is due 2031-01-09.",
        "it runs at 03:17.",
        "see #77.",
        "it needs v7.",
        "commit deadbeef is good.",
        "it is 0xfeed.",
        "ask @bob about it.",
        "ask Bob about it.",
        "it is cached in Redis.",
        "use upload::jitter::Delay.",
        "use the upload-retry-helper package.",
        "C4 is not needed.",
        "the key is sk-ant-api03-" + "abcd" * 10,
    ],
)
def test_invented_details_are_dropped(bench: Bench, invented: str) -> None:
    """Paths, commands, flags, figures and names that nobody saw go, however they are dressed up."""
    draft, _ = bench.draft(said(relevantInformation=[item(TRUE + invented, 2)], constraints=["U1"]))

    (kept,) = [i.text for i in draft.context if i.text.startswith(TRUE.strip())] or [""]
    assert (len(draft.dropped) == 1) != kept.endswith("does not occur in the thread; unverified)")
    assert not kept or invented not in ("src/upload/delay.py", "rm", "make deploy", "https")


@pytest.mark.parametrize(
    ("text", "thread"),
    [
        ("`b445d794…` is missing", "object b445d7947a81eb5b824cf5ffe920d6617ffea35a"),
        ("at `b445d79`", "object b445d7947a81eb5b824cf5ffe920d6617ffea35a"),
        ("`source.Fetch(…, targets)`", "err := source.Fetch(ctx, conn, targets)"),
        ("`resubscribe()` is called", "async resubscribe(handler) {"),
        ("all `tests/test_*.py`", "ran tests/test_upload.py"),
        ("it took 250 ms and 1,157 tests ran", "250ms; 1157 passed"),
        ("Go 1.26.2 is used", "go version go1.26.2 darwin"),
        ("in `/var/folders/...`", "at /var/folders/x1/y2"),
        ("`delay: \"two\"` is set", "delay:  \"two\""),
    ],
)  # fmt: skip
def test_liberties_with_the_letter_are_no_inventions(text: str, thread: str) -> None:
    """What is given with parts left out, abbreviated or with other white space stands where it stands."""
    assert all(contains_claim(claim.text, thread) for claim in extract_claims(text))


@pytest.mark.parametrize(
    ("claim", "thread"),
    [
        ("remove … -rf", "-rf comes before remove"),
        ("250", "version 1.250.3 and 12503"),
        ("go test ./...", "go test ./internal"),
        ("x…", "xylophone"),
        ("RetryDelay()", "MaxRetryDelays"),
    ],
)
def test_liberties_have_an_end(claim: str, thread: str) -> None:
    """Another order, a part of a number, a literal `./...`, too little, and another name do not do."""
    assert not contains_claim(claim, thread)


@pytest.mark.parametrize(
    "text",
    [
        "Read/Write/Edit are tools, and CI/CD is e.g. a state-of-the-art, up-to-date thing.",
        "The user's form shows an error; git history and node tests are fine.",
        "Don't use the clients' tokens or the users' keys.",
        "It is done - not begun - and well-known.",
    ],
)
def test_prose_claims_nothing_to_the_letter(text: str) -> None:
    """Tools in a row, compounds, genitives and dashes are words."""
    assert [claim.text for claim in extract_claims(text)] == []


def test_who_is_quoted_is_told_by_the_words_around() -> None:
    """A message shown to the user is not the user's; names in labels and in German are no names."""
    assert is_attributed_to_user("The user asked for “more of it”.")
    assert is_attributed_to_user("Пользователь сказал: «ещё»")
    assert not is_attributed_to_user('The form shows the user input as "Invalid login".')
    assert not is_attributed_to_user('It keeps to the "don\'t block user" philosophy')
    assert list(extract_names("The cache is kept in Redis by the upload client.")) == ["Redis"]
    assert list(extract_names("Initial Request: the user asked for it.")) == []
    assert list(extract_names("Der Puffer liegt im Speicher der Maschine.")) == []


@pytest.mark.parametrize(
    "true",
    [
        "The user wrote “never change the public API of the upload client”.",
        'The user: "Never change the `public API` … please"',
        "The delay of the upload client is `RETRY_DELAY = 2` in /home/dev/proj/src/upload/client.py.",
        "A session leaks sockets; the user said “never change the public API [of it]”.",
        "The retries of the upload client are configurable in none of its parts; run pytest -q.",
    ],
)
def test_true_sentences_in_other_words_stay(bench: Bench, true: str) -> None:
    """Another case, marks, an elision, an inserted word and an absolute path are not held against it."""
    draft, _ = bench.draft(said(relevantInformation=[item(true, 1, 2, 3, 5)]))

    assert kinds(draft) == {}
    assert draft.authorship.author == "model"


def test_words_of_the_goal_may_be_quoted(bench: Bench) -> None:
    """What the goal says was said by the user."""
    quote = "“cover them with a test” needs the upload client and its delay in `RETRY_DELAY`."
    draft, _ = bench.draft(said(relevantInformation=[item(quote, 2)]))

    assert kinds(draft) == {}
    assert draft.authorship.author == "model"


def test_a_goal_is_not_handed_on_as_done(bench: Bench) -> None:
    """The goal in other words has no support in the thread."""
    done = said(
        state={
            "done": [item("The retries are configurable and covered with a test.", 2)],
            "inProgress": [],
            "notWanted": [],
        },
        constraints=["U1"],
    )
    draft, _ = bench.draft(done)

    assert list(kinds(draft).values()) == ["unsupported"]


def test_what_no_entry_can_bear_is_kept_with_a_mark(bench: Bench) -> None:
    """That something was not done; and marked next steps take no place of marked statements."""
    steps = [item(f"Add `JITTER_{n}` to the upload client.", 2) for n in range(4)]
    state = {
        "done": [
            item("Nothing of the upload client was deployed.", 8),
            item("Only reading happened; no invoices were exported.", 8),
        ],
        "inProgress": [],
        "notWanted": [],
    }
    draft, _ = bench.draft(said(nextSteps=steps, state=state))

    assert [(c.label, c.text.endswith("; unverified)")) for c in draft.context] == [
        *[("Next step", True)] * 4,
        *[("Done", True)] * 2,
    ]


@pytest.fixture
def failing(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Checks one sentence of an author against a thread whose last test run failed."""
    thread = thread_of(
        ThreadBuilder("claude")
        .user("Fix the upload client.")
        .shell("npm run build 2>&1 | tail -5", "ok")
        .shell("pytest -q", "5 passed")
        .edit("src/upload.py", "a", "b")
        .shell("GOCACHE=/tmp/x pytest -q", "1 failed\nE  KeyError: 'x'", 1)
        .assistant("All tests of the upload client should pass; one fails with a KeyError."),
        tmp_path,
    )
    derived = derive_facts(thread)

    def check(**sections):  # type: ignore[no-untyped-def]
        draft = Draft(goal=Goal(text="g"), authorship=Authorship(author="model"), **sections)
        return checker.DraftChecker(thread, derived, draft.goal, {}).check_draft(draft)

    return check


@pytest.mark.parametrize(
    ("text", "refs", "stays"),
    [
        ("All tests of the upload client pass.", (6,), False),
        ("All tests of the upload client should pass.", (6,), True),
        ("All tests of the upload client pass.", (3, 6), True),
    ],
)
def test_tests_do_not_pass_where_the_last_run_failed(failing, text, refs, stays) -> None:  # type: ignore[no-untyped-def]
    """“All tests pass” goes where the last run failed, unless a run that passed is cited for it."""
    assert bool(failing(context=(Item(text=text, refs=refs),)).context) is stays


def test_an_approach_that_failed_stays_when_the_test_passes_later(bench: Bench) -> None:
    """A lesson is no open failure, so a later success does not end it."""
    lesson = item("With `RETRY_DELAY = 2` the upload test failed: TimeoutError, late.", 4)
    draft, _ = bench.draft(said(failedApproaches=[lesson], constraints=["U1"]))

    assert kinds(draft) == {}


def test_a_quote_rests_on_the_entry_that_holds_it(failing) -> None:  # type: ignore[no-untyped-def]
    """A quote is cited to where it stands, and what it is said to answer must have been said."""
    told = failing(
        context=(
            Item(text='"Fix the upload client."', refs=(3,)),
            Item(
                text='"Fix the upload client." — answering: Shall everything be deleted?', refs=(1,)
            ),
        )
    )

    assert [i.refs for i in told.context] == [(1,)]
    assert [d.kind for d in told.dropped] == ["unsupported"]


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("npm run build", True),
        ("pytest -q", True),
        ("GOCACHE=… pytest -q", True),
        ("npm run", False),
        ("tail", False),
        ("run build", False),
        ("pytest", False),
    ],
)
def test_a_command_in_a_command_line_was_run(command: str, run: bool) -> None:
    """What stands between pipes, assignments and redirections was run; a part of it was not."""
    lines = ("npm run build 2>&1 | tail -5", "GOCACHE=/tmp/x pytest -q")

    assert (
        any(
            lookup.contains_command(line, command, is_cut=False)
            or lookup.matches_shortened(command, line)
            for line in lines
        )
        is run
    )


def test_numbers_inside_sentences_are_spelt_out(bench: Bench) -> None:
    """Several numbers are several sentences; one in brackets becomes a reference, one inside a quote."""
    draft, _ = bench.draft(
        said(
            constraints=[item("U1, U2")],
            relevantInformation=[
                item("The upload client keeps its public API as it is (U1).", 2),
                item("Given U1, the delay of the upload client is fixed in F1.", 2),
            ],
        )
    )

    assert len(draft.asked) == 2
    assert [(c.text, c.refs) for c in draft.context] == [
        ("The upload client keeps its public API as it is.", (2, 1)),
        (
            "Given “Never change the public API of the upload client, please.”, the delay of the "
            "upload client is fixed in `src/upload/client.py`.",
            (2, 1),
        ),
    ]


def test_what_the_thread_calls_f1_is_no_number_of_the_list(tmp_path: Path) -> None:
    """A score stays a score, and a file is not found by a name that begins with a number."""
    thread = thread_of(
        ThreadBuilder("claude")
        .user("Raise the F1 score of the model.")
        .edit("src/model.py", "a", "b"),
        tmp_path,
    )
    task = AuthorTask(thread, derive_facts(thread), Goal(text="g"), checker.CAPS)
    text = said(
        relevantInformation=[item("The F1 score is low.", 1)],
        relevantFiles=["F1.py", "model.py:12", "F1 (the model)"],
    )
    draft = build_proposal(answer.parse_answer(text), task)

    assert draft.context[0].text == "The F1 score is low."
    assert [f.path for f in draft.files] == ["F1.py", "src/model.py", "src/model.py"]


def test_refs_of_a_file_speak_of_it(bench: Bench) -> None:
    """Entries that do not name a file are not cited for it."""
    draft, _ = bench.draft(said(relevantFiles=[{"file": "F1", "reason": "", "refs": [1, 3, 5]}]))

    assert draft.files[0].refs == (3,)


def test_what_is_dropped_is_counted_once(bench: Bench) -> None:
    """A file that is no file goes with its reason: one drop for one item."""
    lies = {"file": "src/none.py", "reason": "holds `NOTHING_SEEN`", "refs": []}
    ran = {"command": "npm run none", "reason": "prints `NOTHING_SEEN`", "refs": []}
    draft, _ = bench.draft(said(relevantFiles=[lies], relevantCommands=[ran], constraints=["U1"]))

    assert kinds(draft) == {"src/none.py": "path", "npm run none": "command"}


def test_a_part_of_a_path_is_no_path(bench: Bench) -> None:
    """A path that only begins like one of the thread is an invention."""
    cut = {"file": "src/upload/cli", "reason": "", "refs": [3]}
    draft, _ = bench.draft(said(relevantFiles=[cut], constraints=[item("U1")]))

    assert kinds(draft)["src/upload/cli"] == "path"


@pytest.fixture
def support(tmp_path: Path) -> SupportFinder:
    """A thread in Russian with one entry that is long."""
    thread = thread_of(
        ThreadBuilder("claude")
        .user("Перенеси обработку ошибок загрузки в отдельный модуль.")
        .assistant("Повтор загрузки выполняется три раза с удвоением задержки.")
        .assistant("x " * 5_000 + "\nThe importer skips rows without a checksum.\n" + "y " * 5_000)
        .assistant("Готово."),
        tmp_path,
    )
    return SupportFinder(thread.entries)


def test_sentences_of_other_scripts_are_compared_too(support: SupportFinder) -> None:
    """A sentence in the language of the thread needs words of it, whatever its script."""
    assert support.resolve_refs("Загрузка повторяется: задержка и повтор выполняются.", [2])[0] == (
        2,
    )
    assert (
        support.resolve_refs("База данных полностью удалена вчера администратором.", [2])[0] == ()
    )


def test_names_are_compared_across_languages(support: SupportFinder) -> None:
    """Across languages a citation is believed, but not one that holds none of the names."""
    assert support.resolve_refs("The upload is retried with a growing delay.", [2])[0] == (2,)
    assert support.resolve_refs("The `drop_tables` of `MigrationRunner` are retried.", [2])[0] == ()


def test_all_of_a_cited_entry_counts(support: SupportFinder) -> None:
    """What stands in the middle of a long entry bears a sentence as well."""
    assert support.resolve_refs("Rows without checksum are skipped by the importer.", [3])[0] == (
        3,
    )
