"""Every set of made-up secrets with what hides them; among them texts that are cut, which these make."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

from secrets_generator import ALNUM, HEX, Sample, pick, tuned
from secrets_heldout import held_out
from secrets_issued import issued, unknown
from secrets_keys import held_out_keys, keys
from secrets_lines import on_lines
from secrets_second import second
from secrets_third import third
from secrets_words import coloured, given, placed, worded
from secrets_written import aws, written

from tasuki.draft.redact.answers import find_given_secrets
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.redact.redactor import Redactor, redact
from tasuki.draft.redact.screen import find_row_secrets, hide_rows, redact_screen
from tasuki.model import Entry, Thread
from tasuki.threads.blocks import IndexBlock, clean_blocks, split_blocks
from tasuki.threads.passages import EntryCleaner

_DRAWN = {
    "as it is": "  {0}\n{1}  ", "indented": "  ⎿ {0}\n      {1} and more", "in a box": "│ > {0} │\n│   {1} │",
    "beside another column": "│ {0} │ left │\n│ {1} │ right │", "behind another column": "one │ {0}\ntwo │ {1}",
    "with a backslash": "{0} \\\n  {1}",
}  # fmt: skip
_ENTRIES = {
    "assignment": ("I wrote this:\nDB_PASSWORD={s}\nThen I ran it.", "I wrote {s}"),
    "below its name": ("The password:\n{s}\nok", "ok, {s} works"),
    "half": ("export API_TOKEN={s}", "export API_TOK… {h}"),
    "plain": ('db.password = "{w}"\nThat is all.', '"{w}"'),
    "a key's middle": ("-----BEGIN RSA PRIVATE KEY-----\n{k}\n-----END RSA PRIVATE KEY-----", "It prints {m}"),
}  # fmt: skip
_DOCUMENTS = {
    "a sentence": ("The password:\n{s}\nok", "Decided to log in with {s} from now on."),
    "colours": ("export API_TOKEN={h}\x1b[0m{t}", "It prints {s} in red."), "a list": ("export API_TOKEN={s}", "- deploy\n- {s}\n"), "half": ("token: {s}", "It prints {h}… and stops."),
}  # fmt: skip
_PARTS = {
    "section": '[secrets]\nalpha = "{s}"\nbeta = 1\n', "manifest's section": "secrets:\n  alpha: {s}\n",
    "basic": "It sent Basic {b} and got 200", "phrase": 'password = "{w}"', "login": "Sign in with password sunny!{d}days ok",
    "wallet": "my seed phrase is: {p}.", "wallet's variable": 'MNEMONIC="{p}"', "credentials": "CREDENTIALS={s}", "ssh": "SSH_PASSPHRASE={s}",
}  # fmt: skip
_WORDS = "correct horse battery staple violet planet garden window silver".split()
_AGAIN = {
    "alone": "password={s}\nIt was refused: {s}", "half": "token: {s}\nThe program shows {h}…", "path": "password={p}\nGET /login/{p} HTTP/1.1",
}  # fmt: skip


def screens(seed: int = 20260511) -> Iterator[Sample]:
    """Secrets that a terminal broke over two lines."""
    rng = random.Random(seed)
    for place, drawn in _DRAWN.items():
        for name, head in {"token": "ghp_", "named": "API_TOKEN=", "address": "postgres://app:"}.items():  # fmt: skip
            for cut in range(4, 32, 4):
                value = pick(rng, ALNUM, 36)
                whole = f"{head}{value}{'@db.example/app' * (name == 'address')}"
                at = len(head) + cut
                yield Sample(name, place, drawn.format(whole[:at], whole[at:]), value)


def quotes(seed: int = 20260512) -> Iterator[Sample]:
    """A whole entry, a NUL, and what is quoted from it."""
    rng = random.Random(seed)
    for name, (entry, quote) in _ENTRIES.items():
        for _ in range(12):
            value, word = f"Zq{pick(rng, ALNUM, 18)}", f"{rng.choice(('swordfish', 'elephants', 'butterfly'))}"  # fmt: skip
            lines = [pick(rng, ALNUM + "+/", 64) for _ in range(6)]
            parts = {"s": value, "h": value[:12], "w": word, "k": "\n".join(lines), "m": lines[2]}
            secret = word if "{w}" in quote else lines[2] if "{m}" in quote else value
            yield Sample("quote", name, f"{entry}\0{quote}".format(**parts), secret)


def documents(seed: int = 20260516) -> Iterator[Sample]:
    """An entry, a NUL, and what somebody wrote about it without citing it."""
    rng = random.Random(seed)
    for name, (entry, text) in _DOCUMENTS.items():
        for _ in range(12):
            value = f"Zq7{pick(rng, ALNUM, 18)}"
            yield Sample(
                "document",
                name,
                f"{entry}\0{text}".format(s=value, h=value[:12], t=value[12:]),
                value,
            )


def parts(seed: int = 20260517) -> Iterator[Sample]:
    """Notations that no other set has."""
    rng = random.Random(seed)
    for name, text in _PARTS.items():
        for _ in range(6):
            value, digits = pick(rng, ALNUM, 20), pick(rng, string.digits, 3)
            basic, words = (
                base64.b64encode(f"bob:{value}".encode()).decode(),
                " ".join(rng.sample(_WORDS, 4)),
            )
            phrase = " ".join(rng.choices(_WORDS, k=12))
            filled = text.format(s=value, b=basic, w=words, d=digits, p=phrase)
            secret = {"{p}": phrase, "{b}": basic, "{w}": words, "{d}": f"sunny!{digits}days"}
            yield Sample("part", name, filled, next((v for k, v in secret.items() if k in text), value))  # fmt: skip


def again(seed: int = 20260513) -> Iterator[Sample]:
    """Secrets that stand once after their name, and once without it."""
    rng = random.Random(seed)
    for name, text in _AGAIN.items():
        for _ in range(12):
            value = f"Zq{pick(rng, ALNUM, 14)}"
            filled = text.format(s=value, h=value[:12], p=f"{value}/{pick(rng, HEX, 12)}")
            yield Sample("again", name, filled, value)


def fields(seed: int = 20260514) -> Iterator[Sample]:
    """JSON with secrets in its fields, some with a name of their own."""
    rng = random.Random(seed)
    for name in ("password", "api_token", "clientSecret", "goal"):
        for _ in range(12):
            value = pick(rng, ALNUM, 36)
            said = f"use ghp_{value}" if name == "goal" else value
            yield Sample("field", name, json.dumps({"rows": [{name: said, "state": "idle"}]}), value)  # fmt: skip


def lines(seed: int = 20260515) -> Iterator[Sample]:
    """Texts of which a list shows the first 60 characters, and these end in a secret."""
    rng = random.Random(seed)
    for width in range(4, 40, 3):
        value = pick(rng, ALNUM, 36)
        yield Sample("line", str(width), f"{'x ' * ((56 - width) // 2)}ghp_{value} and so on", value)  # fmt: skip


def _redact_quote(text: str) -> str:
    entry, _, quote = text.partition("\0")
    thread = Thread("claude", "t", "/t", entries=(Entry(1, "user", entry),))
    return QuoteRedactor(thread).redact_quote(quote, [1])


def _redact_document(text: str) -> str:
    entry, _, document = text.partition("\0")
    thread = Thread("claude", "t", "/t", entries=(Entry(1, "user", entry),))
    return QuoteRedactor(thread).redact_document(document)


def _redact_answers(text: str) -> str:
    """The answer and what came later, as the index, a quote and a page show them."""
    said = zip(("assistant", "user", "assistant"), text.split("\0"), strict=True)
    entries = tuple(Entry(ref, kind, words) for ref, (kind, words) in enumerate(said, 1))
    thread, cleaner, indexed = (
        Thread("claude", "t", "/t", entries=entries),
        EntryCleaner(),
        Redactor(),
    )
    cleaner.learn_entries((), entries)
    indexed.learn_values(find_given_secrets(entries))
    quoted, shown = QuoteRedactor(thread), [cleaner.clean_entry(entry).text for entry in entries]
    quotes = [quoted.redact_quote(entry.text, [entry.ref]) for entry in entries]
    return "\n".join([*shown, *quotes, *clean_blocks(list(split_blocks(entries)), indexed)])


def _redact_rows(text: str) -> str:
    rows = [text[n : n + 24] for n in range(0, len(text), 24)]
    ties = ["wrapped"] * (len(rows) - 1) + [""]
    return hide_rows(rows, ties, find_row_secrets(rows, ties), 0)


def _redact_blocks(text: str) -> str:
    """The index's blocks of a thread that says a value before its name."""
    named, _, alone = text.partition("\n")
    blocks = [IndexBlock(1, 1, alone, b""), IndexBlock(2, 2, named, b"")]
    return "\n".join(clean_blocks(blocks, Redactor()))


def _redact_text(text: str) -> str:
    return redact(text)[0]


Clean = Callable[[str], str]
SETS: dict[str, tuple[Callable[[], list[Sample]], Clean]] = {
    "tuned": (lambda: tuned() + second() + third(), _redact_text), "held-out": (held_out, _redact_text), "written": (written, _redact_text),
    "on lines": (on_lines, _redact_text), "aws": (aws, _redact_text), "issued": (issued, _redact_text), "unknown": (unknown, _redact_text),
    "keys": (keys, _redact_text), "held-out keys": (held_out_keys, _redact_text), "screens": (lambda: list(screens()), redact_screen),
    "rows": (lambda: list(again()), _redact_rows), "index": (lambda: list(again()), _redact_blocks), "parts": (lambda: list(parts()), _redact_text),
    "documents": (lambda: list(documents()), _redact_document), "quotes": (lambda: list(quotes()), _redact_quote), "again": (lambda: list(again()), _redact_text),
    "fields": (lambda: list(fields()), lambda text: json.dumps(Redactor().redact_data(json.loads(text)))),
    "words": (lambda: list(worded()), _redact_text), "coloured": (lambda: list(coloured()), _redact_text),
    "places": (lambda: list(placed()), _redact_text), "answers": (lambda: list(given()), _redact_answers),
    "lines": (lambda: list(lines()), lambda text: Redactor().redact_line(text, 60)),
}  # fmt: skip
