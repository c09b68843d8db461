"""Made-up private keys of every form, in the places where agents and people put them.

Of `keys()` 0.56 were caught when they were new; of `held_out_keys()`, which nothing was tuned on, 0.96 at first sight.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Iterator

from secrets_generator import HEX, Sample, b64, b64url, pick

LABELS = (
    "RSA PRIVATE",
    "EC PRIVATE",
    "OPENSSH PRIVATE",
    "ENCRYPTED PRIVATE",
    "PRIVATE",
    "PGP PRIVATE",
)
_BEFORE, _AFTER = "here is the key ", "\nPlease use it for the deploy.\n"


def make_block(rng: random.Random, label: str, head: str = "") -> tuple[str, list[str]]:
    """A key with marks around it, and its lines."""
    lines = [b64(rng, 48) for _ in range(6)] + [b64(rng, 8)]
    kind = f"{label} KEY" + (" BLOCK" if label.startswith("PGP") else "")
    return "\n".join(
        [f"-----BEGIN {kind}-----", *([head] if head else []), *lines, f"-----END {kind}-----"]
    ), lines


def _prefix(mark: str) -> Callable[[str], str]:
    return lambda key: "\n".join(mark + line for line in key.split("\n"))


def _number(form: str) -> Callable[[str], str]:
    return lambda key: "\n".join(
        form.format(n=n, line=line) for n, line in enumerate(key.split("\n"), 1)
    )


PLACES: dict[str, Callable[[str], str]] = {
    "alone": lambda key: key,
    "one line": lambda key: key.replace("\n", "\\n"),
    "with blanks": lambda key: key.replace("\n", " "),
    "in quotes": lambda key: '"' + key.replace("\n", "\\n") + '"',
    "indented": _prefix("    "),
    "quoted": _prefix("> "),
    "list": _prefix("- "),
    "added": _prefix("+"),
    "removed": _prefix("-"),
    "commented": _prefix("# "),
    "cat -n": _number("{n:6}\t{line}"),
    "read": _number("{n:6}→{line}"),
    "grep": _number("certs/key.pem:{n}:{line}"),
    "json": lambda key: json.dumps({"key": key}),
    "json twice": lambda key: json.dumps(json.dumps({"key": key})),
    "json list": lambda key: json.dumps(key.split("\n"), indent=2),
    "yaml": lambda key: "tls:\n  key: |\n" + _prefix("    ")(key),
    "literals": lambda key: (
        "KEY = (\n" + "\n".join(f'    "{line}\\n"' for line in key.split("\n")) + "\n)"
    ),
    "concatenated": lambda key: " +\n".join(f"  '{line}\\n'" for line in key.split("\n")),
    "windows": lambda key: key.replace("\n", "\r\n"),
    "no end": lambda key: key.rsplit("\n", 1)[0],
    "no end, blanks": lambda key: key.rsplit("\n", 1)[0].replace("\n", " "),
    "no end, cat -n": lambda key: _number("{n:6}\t{line}")(key.rsplit("\n", 1)[0]),
    "cut": lambda key: key[: len(key) * 2 // 3],
    "no beginning": lambda key: key.split("\n", 2)[2],
    "no beginning, read": lambda key: _number("{n:6}→{line}")(key.split("\n", 2)[2]),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
}

UNSEEN: dict[str, Callable[[str], str]] = {
    "heredoc": lambda key: f"cat > id_rsa <<'EOF'\n{key}\nEOF",
    "toml": lambda key: f'key = """\n{key}\n"""',
    "cdata": lambda key: f"<key><![CDATA[{key}]]></key>",
    "terraform": lambda key: "private_key = <<-EOT\n" + _prefix("    ")(key) + "\n  EOT",
    "sql": lambda key: "INSERT INTO keys VALUES (1, '" + key.replace("\n", "\\n") + "');",
    "log": _prefix("2026-01-02T03:04:05.678Z app[12]: "),
    "box": lambda key: "\n".join(f"│ {line:<64} │" for line in key.split("\n")),
    "csv": lambda key: f'id,key\n1,"{key}"',
    "powershell": lambda key: f'$key = @"\n{key}\n"@',
    "url": lambda key: "key=" + key.replace("+", "%2B").replace("\n", "%0A").replace(" ", "%20"),
    "spaced": lambda key: key.replace("\n", "\n\n"),
    "bullets": _prefix("• "),
    "stars": _prefix("* "),
    "html": lambda key: key.replace("\n", "<br>\n"),
    "joined": lambda key: (
        "[" + ", ".join(f"'{line}'" for line in key.split("\n")) + "].join('\\n')"
    ),
    "continued": lambda key: key.replace("\n", "\\\n"),
    "middle and end": lambda key: key.split("\n", 4)[4],
    "bat": _number("{n:4} │ {line}"),
    "dotted": _number("{n}. {line}"),
    "hunk": lambda key: "@@ -3,4 +3,9 @@ data:\n context\n" + _prefix("+    ")(key),
    "conflict": lambda key: f"<<<<<<< HEAD\n{key}\n=======\nother\n>>>>>>> main",
    "echo": lambda key: 'echo -e "' + key.replace("\n", "\\n") + '" > key.pem',
    "printf": lambda key: "printf '%s\\n' " + " ".join(f"'{line}'" for line in key.split("\n")),
    "env file": lambda key: 'PRIVATE_KEY="' + key + '"\nPORT=80',
    "slack": lambda key: "```" + key + "```",
    "xml escaped": lambda key: key.replace("\n", "&#10;"),
    "cut, quoted": lambda key: _prefix("> ")(key[: len(key) // 2]),
    "base64 wrapped": lambda key: re.sub(
        "(.{76})", r"\1\n", base64.b64encode(key.encode()).decode()
    ),
}


def _web_key(rng: random.Random) -> tuple[str, list[str]]:
    key = {"kty": "RSA", "kid": "key-2026-01", "n": b64url(rng, 256), "e": "AQAB"}
    secret = {
        name: b64url(rng, size)
        for name, size in (
            ("d", 256),
            ("p", 128),
            ("q", 128),
            ("dp", 128),
            ("dq", 128),
            ("qi", 128),
        )
    }
    return json.dumps({**key, **secret}, indent=2), list(secret.values())


def _putty(rng: random.Random) -> tuple[str, list[str]]:
    lines = [b64(rng, 48) for _ in range(3)]
    head = (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 1\n"
        + b64(rng, 48)
    )
    return "\n".join(
        [head, "Private-Lines: 3", *lines, f"Private-MAC: {pick(rng, HEX, 64)}"]
    ), lines


def _xml(rng: random.Random) -> tuple[str, list[str]]:
    parts = {
        name: b64(rng, size)
        for name, size in (
            ("P", 64),
            ("Q", 64),
            ("DP", 64),
            ("DQ", 64),
            ("InverseQ", 64),
            ("D", 128),
        )
    }
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in parts.items())
    return (
        f"<RSAKeyValue><Modulus>{b64(rng, 128)}</Modulus><Exponent>AQAB</Exponent>{inner}</RSAKeyValue>",
        list(parts.values()),
    )


def _printed(rng: random.Random) -> tuple[str, list[str]]:
    numbers = [
        ":\n    ".join(":".join(pick(rng, HEX, 2) for _ in range(15)) for _ in range(4))
        for _ in range(2)
    ]
    head = f"Private-Key: (2048 bit, 2 primes)\nmodulus:\n    {numbers[0][:44]}\npublicExponent: 65537 (0x10001)"
    return f"{head}\nprivateExponent:\n    {numbers[1]}\nprime1:\n    {numbers[0]}", [
        numbers[1][:44],
        numbers[0][-44:],
    ]


def _ssh2(rng: random.Random) -> tuple[str, list[str]]:
    lines = [b64(rng, 51) for _ in range(5)]
    kind = "SSH2 ENCRYPTED PRIVATE KEY"
    return "\n".join(
        [f"---- BEGIN {kind} ----", 'Comment: "2048-bit rsa"', *lines, f"---- END {kind} ----"]
    ), lines


OTHERS = {"web key": _web_key, "putty": _putty, "xml": _xml, "printed": _printed, "ssh2": _ssh2}
_OTHER_PLACES = ("alone", "one line", "indented", "quoted", "cat -n", "read", "json", "added")


def keys(seed: int = 20260503) -> list[Sample]:
    """Private keys of all forms in the places that the patterns were tuned on."""
    rng = random.Random(seed)
    others = (
        Sample("private-key", f"{name} / {place}", PLACES[place](text), line)
        for name, make in OTHERS.items()
        for place in _OTHER_PLACES
        for text, lines in [make(rng)]
        for line in lines
    )
    return [*_list_samples(rng, PLACES), *others]


def held_out_keys(seed: int = 20260504) -> list[Sample]:
    """Private keys in places that were written when the patterns were finished."""
    return list(_list_samples(random.Random(seed), UNSEEN))


def _list_samples(rng: random.Random, places: dict[str, Callable[[str], str]]) -> Iterator[Sample]:
    heads = {
        "RSA PRIVATE": f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{pick(rng, HEX, 32).upper()}\n",
        "PGP PRIVATE": "Version: GnuPG v2\n",
    }
    for label in LABELS:
        for head in {"", heads.get(label, "")}:
            for name, put in places.items():
                block, lines = make_block(rng, label, head)
                text = _BEFORE + ("\n" if "\n" in put(block) else "") + put(block) + _AFTER
                context = f"{label}{' with a head' * bool(head)} / {name}"
                for line in (lines[3], lines[5], lines[6]):
                    shown = line.replace("+", "%2B") if name == "url" else line
                    if shown in text:
                        yield Sample("private-key", context, text, shown)
                if "base64" in name:
                    yield Sample("private-key", context, text, text[-120:][:64])


def words_stay(sample: Sample, output: str) -> bool:
    """Whether the words around a key are still there."""
    return _AFTER.strip() in output and (_BEFORE.strip() in output or _BEFORE not in sample.text)
