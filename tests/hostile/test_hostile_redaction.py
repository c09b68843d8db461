"""Texts made to keep a scanner for secrets busy."""

from collections.abc import Callable

import pytest

from tasuki.draft.redact.redactor import redact


@pytest.mark.parametrize(
    "make",
    [
        lambda: "a" * 1_000_000,
        lambda: "=" * 1_000_000,
        lambda: "password " * 100_000,
        lambda: "password is" + " " * 1_000_000,
        lambda: "\\" * 1_000_000,
        lambda: "-.a" * 300_000,
        lambda: "curl -u " * 20_000,
        lambda: "eyJaaaaaaaa-" * 80_000,
        lambda: "-----BEGIN " * 90_000,
        lambda: 'login("a" ' * 20_000,
        lambda: 'passwords = ["' * 20_000,
        lambda: "kind: Secret\ndata:\n  a: b\n" * 30_000,
        lambda: "kind: Secret\ndata:\n" + "  a: b\n" * 120_000,
        lambda: "a,password\nb,c\n" * 60_000,
        lambda: "password," * 110_000,
        lambda: "token: |\n  a\n" * 80_000,
        lambda: "curl\n" * 200_000,
        lambda: "\n+" * 500_000,
        lambda: "mysqli('" * 120_000,
        lambda: "(a,password) values (" + "'b','c'),(" * 90_000,
    ],
)
@pytest.mark.parametrize("length", [250_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_hostile_texts_complete(make: Callable[[], str], length: int) -> None:
    """A text made to be slow is scanned to the end and left as it is."""
    text = make()[:length]

    assert (text, {}) == redact(text)
