"""What a sentence claims to the letter is found, and looked for as a whole."""

import pytest

from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.text.entries import TextClaim, contains_claim


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`runSync` is in internal/sync/run.go.", {("value", "runSync"), ("path", "internal/sync/run.go")}),
        ("Run npm run build:all before it.", {("command", "npm run build:all")}),
        ("Use `git push --force origin` now", {("command", "git push --force origin")}),
        ("The user said “never touch it”.", {("quote", "never touch it")}),
        ("It is 4,096 bytes, 12 % of 350", {("value", "4,096"), ("value", "350")}),
        ("Set MAX_RETRIES and maxRetries via --max-retries",
         {("value", "MAX_RETRIES"), ("value", "maxRetries"), ("value", "--max-retries")}),
        ("See https://example.com/a?b=1.", {("value", "https://example.com/a?b=1")}),
        ("Commit 9e08903 closes ABC-123 for v2.1.4", {("value", "9e08903"), ("value", "ABC-123"), ("value", "v2.1.4")}),
        ("Call parse_args() or os.path.join", {("value", "parse_args"), ("value", "os.path.join")}),
        ("e.g. read/write access and 3/4 of the input/output, i.e. both", set()),
        ("They take 48 kB, 3 MiB and 2 GHz in all.", set()),
        ("This decision is well-known and makes 2 things easier.", set()),
    ],
)  # fmt: skip
def test_claims_are_found(text: str, wanted: set[tuple[str, str]]) -> None:
    """Paths, commands, quotes and values are claims; plain words are not."""
    assert {(claim.kind, claim.text) for claim in extract_claims(text)} == wanted


def test_a_claim_is_looked_for_whole() -> None:
    """A part of a longer name is not the name; white space does not matter."""
    assert contains_claim("src/app", "see src/app/main.py")
    assert not contains_claim("src/ap", "see src/app/main.py")
    assert not contains_claim("max", "maximum and _max")
    assert contains_claim("npm  run", "we npm run it\n")
    assert contains_claim("a b", "a\n   b")
    assert TextClaim("value", "x").text == "x"
