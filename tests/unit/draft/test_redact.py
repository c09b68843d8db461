"""Redaction: what is caught, what is left alone, and what stays true of any text."""

from __future__ import annotations

import random
import string

import pytest
from secrets_generator import SELF_EVIDENT, Sample, leaked, tuned
from secrets_heldout import held_out
from secrets_issued import issued, unknown
from secrets_keys import held_out_keys, keys, words_stay
from secrets_lines import on_lines
from secrets_lookalikes import texts
from secrets_second import second
from secrets_sets import SETS
from secrets_third import third
from secrets_written import aws, written

from tasuki.draft.redact.answers import find_given_secrets
from tasuki.draft.redact.redactor import MARK, Redactor, find, redact
from tasuki.model import Entry, ToolCall
from tasuki.text_safety import clean_text
from tasuki.threads.passages import EntryCleaner

PASSWORD = "Tr0ub4dor" + "&3xyz"


def recall(samples: list[Sample]) -> float:
    return 1 - sum(leaked(s, redact(s.text)[0]) for s in samples) / len(samples)


def test_tuned_samples_are_caught() -> None:
    """At least 98 of 100 made-up secrets are unreadable after redaction, over more than 40 kinds."""
    samples = tuned() + second() + third()

    assert len({s.kind for s in samples}) >= 40
    assert recall(samples) >= 0.98


def test_held_out_samples_are_caught() -> None:
    """At least 88 of 100 secrets are unreadable in contexts that nothing was tuned on."""
    assert recall(held_out()) >= 0.88


@pytest.mark.parametrize("kind", sorted(SELF_EVIDENT))
def test_issued_tokens_are_caught_everywhere(kind: str) -> None:
    """A token of a known issuer is caught in every tuned context, whatever stands around it."""
    missed = [s.context for s in tuned() if s.kind == kind and leaked(s, redact(s.text)[0])]

    assert missed == []


def test_tokens_of_issuers_are_caught() -> None:
    """Tokens of some 190 issuers are unreadable, and of 100 of issuers that nobody knows at least 97."""
    missed = {s.kind for s in issued() if leaked(s, redact(s.text)[0])}

    assert missed == set()
    assert recall(unknown()) >= 0.97


def test_private_keys_are_caught_in_all_places() -> None:
    """A private key is unreadable wherever it is quoted, cut and encoded, and the words around it stay."""
    samples = keys()
    missed = {s.context for s in samples if leaked(s, redact(s.text)[0])}
    swallowed = {s.context for s in samples if s.text.startswith("here") and not words_stay(s, redact(s.text)[0])}  # fmt: skip

    assert missed == swallowed == set()
    assert recall(held_out_keys()) >= 0.96


def test_secrets_in_written_files_are_caught() -> None:
    """At least 98 of 100 secrets are unreadable in code and configuration that an agent writes."""
    samples = written()
    missed = {s.context for s in samples if leaked(s, redact(s.text)[0])}

    assert recall(samples) >= 0.98, missed


def test_secrets_away_from_their_names_are_caught() -> None:
    """At least 98 of 100 secrets are unreadable in columns, blocks, calls, second commands and lines of a diff."""
    samples = on_lines()
    missed = {s.context for s in samples if leaked(s, redact(s.text)[0])}

    assert recall(samples) >= 0.98, missed


@pytest.mark.parametrize("name", ["words", "coloured", "places", "answers"])
def test_secrets_without_a_shape_are_caught(name: str) -> None:
    """Passwords of words, split by colours, in places of other programs, and given when asked are unreadable."""
    make, clean = SETS[name]
    missed = {s.context for s in make() if leaked(s, clean(s.text))}

    assert missed == set()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Do you want me to reset the password?", "staging"), ("Which auth shall I use, a password or a token?", "token"),
        ("Which password hashing algorithm is right?", "argon2id"), ("What is the token for?", "deployments"),
        ("What is the DB password?", "postgres"), ("Where is the password?", "config/.env"), ("I removed the password.", "thanks"),
        ("Please enter the password yourself.", "done"), ("What is the password?", "take the one from vault please"),
    ],
)  # fmt: skip
def test_other_answers_stay(question: str, answer: str) -> None:
    """An answer that is no secret, or to a question for something else, is not taken for one."""
    entries = [Entry(1, "assistant", question), Entry(2, "user", answer)]

    assert list(find_given_secrets(entries)) == []


def test_colours_around_a_secret_stay() -> None:
    """Only the secret is replaced in a text with colours; cleaned text has none, and nothing of them."""
    text = f"\x1b[1mDB_\x1b[4mPASSWORD\x1b[0m=\x1b[32m{PASSWORD}\x1b[0m ok"

    assert (
        redact(text)[0] == "\x1b[1mDB_\x1b[4mPASSWORD\x1b[0m=\x1b[32m[REDACTED:password]\x1b[0m ok"
    )
    assert redact(clean_text(text))[0] == "DB_PASSWORD=[REDACTED:password] ok"


def test_what_an_output_names_is_hidden_in_its_command() -> None:
    """A call's command, which says nothing of a password, is cleaned with what its output says."""
    call = ToolCall(
        "1",
        "Bash",
        "shell",
        command=f"./create_user.sh admin {PASSWORD}",
        output=f"exists (password {PASSWORD})",
    )
    cleaned = EntryCleaner().clean_entry(Entry(1, "tool", tool=call))

    assert cleaned.tool
    assert PASSWORD not in f"{cleaned.tool.command}{cleaned.tool.output}"


def test_marks_of_a_diff_stay() -> None:
    """The `+` and `-` of lines are not part of what is replaced, nor is anything else moved."""
    clean = redact(
        f"@@ -1 +1,2 @@\n-name: app\n+db:\n+  - name: DB_PASSWORD\n+    value: {PASSWORD}\n"
    )[0]

    assert (
        clean
        == "@@ -1 +1,2 @@\n-name: app\n+db:\n+  - name: DB_PASSWORD\n+    value: [REDACTED:password]\n"
    )


def test_a_value_that_begins_with_a_plus_is_caught() -> None:
    """One line that begins so is no diff: the secret half of an AWS key may."""
    secret = "+" + "zQ7pLk2vXw9ZrYb4NcMd8HsJf1Gu6AeRi3To5Kx"

    assert secret[1:] not in redact("AKIA" + f"Q3EGRJ7XK2LMNOP4\n{secret}\n")[0]


def test_nothing_follows_a_mark() -> None:
    """The name of a kind in a mark announces no section: what stands below it stays."""
    text = "[REDACTED:secret]\n  build: q8Wn3Lx0Zr6Tb1Vy5Kd9\n"

    assert (text, {}) == redact(text)


def test_aws_secrets_are_caught() -> None:
    """The secret half of an AWS key is unreadable near the other half and behind the words for it."""
    missed = {s.context for s in aws() if leaked(s, redact(s.text)[0])}

    assert missed == set()


@pytest.mark.parametrize("name", ["X-Amz-Signature", "x-goog-signature"])
def test_signatures_of_addresses_are_caught(name: str) -> None:
    """An address that is signed for whoever has it loses its signature, and what is no signature stays."""
    signature = "4be71c09" * 8

    text, _ = redact(
        f"https://files.example/a.zip?{name}={signature}&part=1 is what {name}= is for"
    )

    assert text == (
        f"https://files.example/a.zip?{name}=[REDACTED:url-signature]&part=1 is what {name}= is for"
    )


def test_what_stands_near_an_aws_key_is_left_alone() -> None:
    """A commit, a checksum or a path beside an AWS key id is no secret."""
    key = "AKIA" + "Q3EGRJ7XK2LMNOP4"
    commit, path = (
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "src/components/settings/accountsettingsx",
    )
    clean = redact(f"{key} in {commit} and {path}")[0]

    assert key not in clean
    assert clean.endswith(f" in {commit} and {path}")


def test_lookalikes_are_left_alone() -> None:
    """No text that only looks like a secret is altered."""
    alike = texts() + texts(78)
    altered = [text for text in alike if redact(text)[0] != text]

    assert len(alike) >= 1000
    assert altered == []


def test_redacting_again_changes_nothing() -> None:
    """Redaction is idempotent, also for a new Redactor that remembers nothing."""
    for sample in (tuned() + second() + held_out())[::4]:
        once = redact(sample.text)[0]
        assert once == redact(once)[0]


def test_random_mixtures_are_idempotent() -> None:
    """Redaction of pieces of secrets, marks and text in any order is idempotent and keeps the marks."""
    rng = random.Random(7)
    pieces = [s.text for s in rng.sample(tuned(), 60)]
    pieces += [
        "[REDACTED:password]",
        "password=",
        "token: ",
        "curl -u ",
        '"',
        "\\n",
        " is ",
        "\n",
        "://a:",
        "@b ",
    ]
    for _ in range(400):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(2, 6)))
        once = redact(text)[0]
        assert once == redact(once)[0]
        assert text.count("[REDACTED:password]") <= once.count("[REDACTED:password]")


@pytest.mark.parametrize(
    "text",
    [
        "[REDACTED:password]",
        "password=[REDACTED:password]",
        "the token is [REDACTED:token].",
        "a [REDACTED:jwt]x1",
    ],
)
def test_marks_are_never_altered(text: str) -> None:
    """A text whose secrets are marks already comes back as it is, with nothing counted."""
    assert (text, {}) == redact(text)


def test_counts_tell_kinds() -> None:
    """The report has each kind with its number, and the marks carry the same kinds."""
    text = f"PGPASSWORD={PASSWORD} psql postgres://app:{PASSWORD[::-1]}@db/x"
    clean, counts = redact(text)

    assert (
        clean == "PGPASSWORD=[REDACTED:password] psql postgres://app:[REDACTED:url-password]@db/x"
    )
    assert counts == {"password": 1, "url-password": 1}


def test_values_are_remembered() -> None:
    """A value found once is redacted in later texts, where nothing tells that it is secret."""
    redactor = Redactor()
    redactor.redact(f"export DB_PASSWORD={PASSWORD}")

    assert (
        redactor.redact(f"I tried {PASSWORD} and it works")
        == "I tried [REDACTED:password] and it works"
    )
    assert redactor.counts == {"password": 2}


def test_values_are_remembered_within_a_text() -> None:
    """A value is redacted also before the place that gives it away."""
    text = f"I tried {PASSWORD} first.\nDB_PASSWORD={PASSWORD}"

    assert PASSWORD not in redact(text)[0]


def test_short_and_plain_values_are_not_remembered() -> None:
    """Words and values under 8 characters stay readable elsewhere, even when they were a password once."""
    redactor = Redactor()
    redactor.redact("mysql --password='swordfish'\nDB_PASSWORD=ab12cd")

    assert redactor.redact("the swordfish ab12cd") == "the swordfish ab12cd"


def test_remembered_values_need_edges() -> None:
    """A remembered value inside a longer word is left alone."""
    redactor = Redactor()
    redactor.redact("the password is hunter22x")

    assert redactor.redact("prehunter22xyz") == "prehunter22xyz"


def test_find_alters_nothing() -> None:
    """`find` gives place and kind of each secret, and remembers none."""
    text = f"the password is {PASSWORD}"
    redactor = Redactor()
    start, end, kind = redactor.find_secrets(text)[0]

    assert (text[start:end], kind) == (PASSWORD, "password")
    assert find(text) == redactor.find_secrets(text)
    assert redactor.counts == {}
    assert redactor.redact(PASSWORD) == PASSWORD


def test_data_is_walked() -> None:
    """Texts in lists, tuples and dicts are redacted; keys, numbers and the types of containers stay."""
    redactor = Redactor()
    data = {"run": [f"sshpass -p {PASSWORD} ssh a", ("x", 3)], "n": 1.5, "none": None}
    expected = {
        "run": ["sshpass -p [REDACTED:command-password] ssh a", ("x", 3)],
        "n": 1.5,
        "none": None,
    }

    assert expected == redactor.redact_data(data)


@pytest.mark.parametrize("key", ["password", "token", "Authorization", "api_key", "clientSecret"])
def test_fields_named_for_secrets(key: str) -> None:
    """A text under a key that names a secret is replaced whole, unless it is a placeholder or a mark."""
    redactor = Redactor()
    clean = redactor.redact_data({key: "plain words here"})[key]

    assert MARK.fullmatch(clean)
    assert {key: clean} == redactor.redact_data({key: clean})
    assert {key: "$TOKEN"} == redactor.redact_data({key: "$TOKEN"})
    assert {key: 12} == redactor.redact_data({key: 12})


def test_counts_of_tokens_are_no_secrets() -> None:
    """Fields that only speak about tokens keep their values."""
    data = {
        "max_tokens": "4096",
        "token_type": "bearer",
        "secretName": "my-secret-2",
        "next_page_token": "CAUQ12",
    }

    assert data == Redactor().redact_data(data)


def test_any_text_is_accepted() -> None:
    """Empty texts, lone surrogates and characters beyond Latin-1 around a secret are no trouble."""
    odd = "İ\ud800🎉" + "".join(chr(c) for c in range(0x2500, 0x2520))

    assert redact("") == ("", {})
    assert (odd, {}) == redact(odd)
    assert f"{odd}\nTOKEN=[REDACTED:token]\n{odd}" == redact(f"{odd}\nTOKEN={'a1B2' * 5}\n{odd}")[0]


@pytest.mark.parametrize(
    "text",
    [
        "the password is {}",
        "DB_PASSWORD={}",
        "password: {}",
        '{{"password": "{}"}}',
        "redis://:{}@cache:6379",
        "pw: {}",
    ],
)
def test_word_with_one_digit_is_a_password(text: str) -> None:
    """The commonest made-up password, a word and one digit, is caught where a password is named."""
    word = "hunter" + "2"

    assert word not in redact(text.format(word))[0]


def test_key_block_cut_short() -> None:
    """A private key without its END line is redacted to the end of its body."""
    body = "\n".join((string.ascii_letters + "0123456789+/")[i : i + 48] for i in range(4))
    text = "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n" + body

    assert redact(text) == ("[REDACTED:private-key]", {"private-key": 1})


def test_kubeconfig_certificates_stay() -> None:
    """In a kubeconfig only the key and the token are secret, the certificates are not."""
    coded = "LS0tLS1CRUdJTiBDRVJU" * 8
    text = f"certificate-authority-data: {coded}\nclient-certificate-data: {coded}\nclient-key-data: {coded[5:]}x1\n"
    clean = redact(text)[0]

    assert clean.count(f"data: {coded}\n") == 2
    assert "client-key-data: [REDACTED:key]\n" in clean


@pytest.mark.parametrize(
    "text",
    [
        "AWS Access Key ID [None]: AKIAXWRZXXKWMBZLTNFH\nAWS Secret Access Key [None]: zQ7pLk2vXw9ZrYb4NcMd8HsJf1Gu6AeRi3To5KxF",
        "AWS Secret Access Key [None]: zQ7pLk2vXw9ZrYb4NcMd8HsJf1Gu6AeRi3To5KxF",
        "push with ghp_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgHiJ",
    ],
)
def test_a_token_without_a_digit_is_caught(text: str) -> None:
    """One id of AWS in thirty has no digit, and its secret stands beside it in what `aws configure` prints."""
    clean = redact(text)[0]

    assert "AKIAXWRZ" not in clean
    assert "zQ7pLk2vXw9ZrYb4" not in clean
    assert "ghp_aBcDeFgH" not in clean
