"""What a secret looks like: names of secrets, and conditions for values.

Tables and judgements only; others find the places. Patterns are compiled on first use.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from tasuki.patterns import compile_pattern


class SecretSpan(NamedTuple):
    """The position of a secret, in characters, and its kind."""

    start: int
    end: int
    kind: str


@cache
def compile_once(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, found by its text alone."""
    return compile_pattern(pattern)


_DUMMY = (
    r"xxxx|\*\*\*|•••|\.\.\.|…|\[REDACTED|(?i:your(?:[-_ ]|key|token|secret|api|pass)|change[-_]?me|replace[-_ ]?(?:me|with|this)|placeholder|redacted"
    r"|insert[-_ ]|dummy|example[-_. ]|[-_. ]example|<[a-z])|(.)\1{7}"
)


def is_dummy(value: str) -> bool:
    """Return whether a value is one that documentation puts in place of a secret."""
    return compile_once(_DUMMY).search(value) is not None


_CAMEL_WORDS = r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)*$"


def is_random(value: str, often: int = 5) -> bool:
    """Return whether the value changes its kind of character too often for words with numbers.

    The kinds are lower case, upper case and digits. One change in `often` characters is enough
    if there are digits; letters alone need twice as many.
    """
    value = value[:256]
    if compile_once(_CAMEL_WORDS).match(value):
        return False
    classes = [
        "d" if c.isdigit() else "u" if c.isupper() else "l" if c.isalpha() else "-" for c in value
    ]
    changes = sum(a != b and "-" not in (a, b) for a, b in zip(classes, classes[1:], strict=False))
    digits = classes.count("d")
    return changes * often >= len(value) and (digits >= 2 or changes * often >= len(value) * 2)


def is_encoded(text: str) -> bool:
    """Return whether a text ends in encoded data, in which any prefix may occur by chance."""
    end = text[-65:-1]
    return compile_once(_MIXED).match(end) is not None and is_random(end, often=8)


_MIXED = r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9_-]{24,}$"

# ---- names ---------------------------------------------------------------------------------------------------------

STEMS = ("pass", "pw", "psk", "secret", "token", "key", "auth", "cred", "hmac", "contrase", "senha")
_FOREIGN = ("密码", "密碼", "密钥", "口令", "令牌", "パスワード", "トークン", "비밀번호", "пароль")
FOREIGN = "|".join(_FOREIGN)
ESCAPED = r"\\u(?:" + "|".join(re.escape(ascii(word)[3:-1]) for word in _FOREIGN) + ")"

_PASSWORDS = (
    "password|passwd|passwort|pw|psk|passphrase|passcode|pwd|passwrd|storepass|keypass|requirepass|masterauth|userpass|dbpass|sshpass|bindpw|rootpw"
    "|contraseña|contrasena|contrase|contraseñas|senha|passe"
).split("|")
_OWNERS = frozenset(
    "api secret access private preshared account auth authentication encryption encrypt signing sign master shared service client"
    " app application license admin root session webhook jwt hmac crypto deploy subscription host function"
    " functions integration write read ingest server consumer project bot openai anthropic rails cookie role".split()
)
_PLURALS = {
    "passwords": "password", "secrets": "secret", "tokens": "token", "keys": "key",
    "credentials": "password", "creds": "password",
}  # fmt: skip
"""What the values of a list or mapping of that name are."""
_GLUED = (
    r"(?:(?P<password>password|passwd|passphrase|passwort|pwd|pgpass)|(?P<secret>secret)|(?P<token>(?:auth|access|api|bearer|bot)token)"
    r"|(?P<key>(?:api|secret|access|account|auth|private|license)key))$"
)
_QUALIFIERS = frozenset(
    "value prod production staging stage dev test live old new current base64 b64 plain raw main default data str"
    " string literal pem id base".split()
)
# With one of these, the name is about secrets, or is a cursor, a count or a form's text.
_NEUTRAL = frozenset(
    "public primary foreign cache max min num total next prev page paging continuation cancellation cancel count eos bos"
    " pad unk mask sep cls stop type label labels placeholder error errors msg message i18n hint title prompt no has is"
    " invalid missing wrong show hide toggle forgot sort partition idempotency sync design css author authors"
    " authority certificate ssh pagination starting dkim valid expected unexpected image csrf index row column join bypass compass dedupe".split()
)
_SPLIT = r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00df-\u00ff]+|\d+"


def _split_words(name: str) -> list[str]:
    words = [w.lower() for w in compile_once(_SPLIT).findall(name)]
    while len(words) > 1 and (
        words[-1].isdigit() or (words[-1] in _QUALIFIERS and words[-1] != "id")
    ):
        words.pop()
    return words


@lru_cache(maxsize=4096)
def may_end_name(tail: str) -> bool:
    """Whether a name that ends in this, from one of STEMS on, can be the name of a secret."""
    last = tail.lower()
    if last in ("key", "auth", "passwd", "password-stdin", "credential", "credentials.basic"):
        return True
    return bool(find_secret_kind("api_" + tail) or find_plural_kind("api_" + tail))


@lru_cache(maxsize=4096)
def find_secret_kind(name: str) -> str:
    """Return the kind of secret that a variable, field, flag or header of this name holds, or ''.

    `name` is in its own spelling: case and separators decide where its words end.
    """
    words = _split_words(name)
    if not words or not _NEUTRAL.isdisjoint(words):
        is_ssh = words[-2:-1] == ["ssh"] and words[-1] in (*_PASSWORDS, "pass")
        return "password" if is_ssh else ""
    if words == ["1", "password"]:
        return ""  # the program
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if last == "pepper" or (last == "salt" and before in ("auth", "key", "in", "nonce")):
        return "secret"
    if words == ["pass"]:
        return "pass"
    if last in _PASSWORDS or last == "pass":
        return "password"
    if last in ("secret", "token"):
        return last
    if words[-2:] == ["storage", "key"]:
        return "weak-key"  # also the name of what a browser keeps
    if last == "key" and (before in _OWNERS or before == "aes" or words[-3:-1] == ["secret", "or"]):
        return "private-key" if before == "private" else "key"
    if last in ("credentials", "creds"):
        return "credentials"
    bare = name.strip("-").lower()
    if last in ("authorization", "authkey") or bare in ("_auth", "auth", "x-auth"):
        return "authorization"
    if last == "hmac" or (name.rpartition(".")[2].isupper() and last == "key" and before):
        return "weak-key"
    found = compile_once(_GLUED).search(last)
    return (found.lastgroup or "") if found else ""


@lru_cache(maxsize=4096)
def find_plural_kind(name: str) -> str:
    """Return the kind of secrets that a list or mapping of this name holds, or ''."""
    words = _split_words(name)
    if not words or not _NEUTRAL.isdisjoint(words):
        return ""
    kind = _PLURALS.get(words[-1], "")
    return "" if kind == "key" and (len(words) < 2 or words[-2] not in _OWNERS) else kind


# ---- values --------------------------------------------------------------------------------------------------------

_REFERENCE = (
    r"(?i)//\w|#/|\?\w|\*+_*[a-z]|[=\])}]|\+\+|\d+(?:(?:\.\d+)?,|\*)[a-z]|\$[\w{(\[]|\$\$|%[\w({]|\{|<|!|@\w+/|\(|\[|--?[a-z][a-z-]*(?:=|$)|`|&|\*+$"
    r"|(?:https?|file|op|env|vault|ref|ssm|arn|sha\d+|aws|gcp|secret|keyring|data|urn)(?::|\+)"
    r"|(?:process|os|import|self|this|args|opts|config|settings|env|ctx|req|request|props|cfg|options|state|secrets)\."
)
_CALL = r"[A-Za-z_$][\w$.:]*[(\[]|.*(?:=>|->|\?\.|::|\(\)|\$\{|\{\{|%[sdr]$|\[[^\]]*[a-zA-Z0-9]-[a-zA-Z0-9]|[!=]==|\?\?|&&|\}\)|\)\})"
_CODE = r"[\w$]+(?:\.[\w$]+)+(?:={1,3}$|[?+][\w:.]*$)|[A-Z]?[a-z]{2,12}=$|[A-Za-z_]\w*=(?:None|True|False|null|true|false)$|[a-z]+(?:[A-Z][a-z]+)+(?:\?[\w.:]*|\+[\w.]+)$"
_FILE = (
    r".*\.(?:json|txt|pem|key|ya?ml|env|py|tsx?|jsx?|go|rs|rb|md|toml|ini|cfg|conf|crt|html?|css|sh|java|php|sql|log|lock|com|io)"
    r"(?:[:#]\d+)*$|[\w.-]+\.\*$"
)
_PATH = r"(?:[a-z]{2,12}:|[~.]{0,2}/)?[\w.@-]+(?:/[\w.@:*-]+)+/?$"
_DOTTED = r"[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)+$"
_SNAKE = r"_*[A-Za-z]+\d{0,2}(?:_[A-Za-z]+\d{0,2}|_\d{1,4})+$"
_CAMEL = r"\$?[A-Za-z]?[a-z]+\d?(?:[A-Z][a-z]+\d?)*$|[A-Z][A-Z_]+\d?$"
_TECHNICAL = (
    r"(?i)(?:(?:sha|md|hs|rs|es|ps|utf|int|uint|float|base|aes|rsa|ed|oauth|http|ipv|argon|bcrypt|win|uuid|uuidv|web|gpt|python"
    r"|node|str|varchar|char)-?\d{1,5}(?:[-_.]?[a-z]{1,8}\d{0,4})?|[a-z]-?\d{1,5}|b64(?:enc|dec)|\d{1,4}[a-z]{1,2}|\d{1,4}(?:-[a-z]+){1,2}"
    r"|v?\d+(?:\.\d+)+(?:[-+.][\w.+-]*)?|\d{4}-\d\d-\d\d.*|\d\d?:\d\d.*|[\d.,:/_+-]+"
    r"|#[0-9a-f]{3,8}|[a-z]{2,12}\?|_[a-z]+\d{0,3}|x-[a-z]+(?:-[a-z0-9]+)+|[a-z]{2}(?:-[a-z]{4,10}){1,2}-\d|(?:aws4-)?(?:hmac|cram|digest|scram)-(?:sha|md)-?\d{1,3}(?:-\d{3}|-plus)?|[\w.]*[a-z0-9](?:PrivateKey|PublicKey|ApiKey|Token|Secret|Password|Credential)s?(?:Types?)?"
    r"|[\w.+-]{2,}@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}|claude-.*|gpt-.*|(?:toolu|msg|call|req|chatcmpl|resp)_.*)$"
)
UUID = r"(?i:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$"
HASH = r"(?i:(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}))$"
_COMMON = frozenset(
    "todo tbd password passwd passphrase pass secret token string str none null true false required optional undefined changeme"
    " example postgres admin root test guest user username minio mysql redis default disabled enabled invalid missing"
    " empty unset hidden bearer basic apikey api_key value text number boolean object function void never unknown any"
    " test1234 password1 password123 testpass testpassword mypassword foobar placeholder identifier environment"
    " current-password new-password inherit unchanged rabbitmq postgresql keycloak supersecret mysecret notasecret".split()
)


def is_run_on(value: str) -> bool:
    """Whether the value is a chain of further assignments, each of which is checked separately."""
    return value.count("=") > 8 or value.count(":") > 16


def is_placeholder(value: str) -> bool:
    """Whether the value is a placeholder (`$TOKEN`, `<your-token>`, `****`) or a reference."""
    if len(value) < 4 or is_run_on(value) or len(set(value)) <= 2:
        return True
    value = value[:256]
    if value.lower() in _COMMON:
        return True
    return bool(is_dummy(value) or compile_once(_REFERENCE).match(value))


def is_reference(value: str) -> bool:
    """Return whether the value is code, a path, a file, an address or a technical term."""
    return any(compile_once(p).match(value) for p in (_CALL, _CODE, _TECHNICAL)) or (
        any(compile_once(p).match(value) for p in (_FILE, _PATH, _DOTTED)) and not is_random(value)
    )


def is_hard(value: str, kind: str = "") -> bool:
    """Whether a bare value is no word or identifier: it mixes letters with digits or symbols.

    Required of values without quotes, where code, prose and secrets look alike. For a password
    one word with one digit is enough.
    """
    if kind == "password" and compile_once(r"[A-Za-z]?[a-z]{4,}\d$").match(value):
        return True
    value = value[:256]
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    cased = sum(
        c.isascii() or c.lower() != c.upper() for c in value
    )  # scripts with blanks between words
    if len(value) < 6 or not letters or cased * 2 < len(value):
        return False
    if compile_once(_CAMEL).match(value) or compile_once(_SNAKE).match(value):
        return len(value) >= 16 and is_random(value)
    return (
        digits >= 2
        or (digits >= 1 and len(value) >= 8)
        or (len(value) >= 20 and is_random(value))
        or any(c in "!@#%^&*+?~=" for c in value[1:])
    )


def is_stand_in(value: str) -> bool:
    """Return whether a value stands for a secret, or is none: a placeholder or a reference."""
    return is_placeholder(value) or is_reference(value)


def is_bare_secret(value: str, kind: str = "") -> bool:
    """Whether a value without quotes is a secret, given that its place is one for secrets."""
    return is_hard(value, kind) and not is_stand_in(value)


def is_quoted_secret(value: str, kind: str) -> bool:
    """Return whether a quoted literal assigned to a secret's name is a secret. It is hard, or one plain word for a password."""
    if " " in value or "\t" in value:
        return kind == "password" and is_phrase(value)
    if is_hard(value, kind):
        return True
    plain = value.isascii() and value.islower() and value.isalpha() and len(value) >= 8
    if kind == "password" and (plain or is_plain_password(value, is_chain=True)):
        return True
    return len(value) >= 16 and is_random(value)


_PLAIN = r"[a-z]{6,}$|(?=.*[a-z])(?:[A-Za-z]+\d*[_-])+[A-Za-z]+\d*$|[A-Za-z]?[a-z]+\d?(?:[A-Z][a-z]+)*[A-Z][a-z]*\d{1,4}$|[A-Z]?[a-z]+(?:[A-Z][a-z]+){2,}$"
_CHAIN = r"[A-Za-z]{3,}(?:-[A-Za-z]{3,}){2,}(?:-\d{1,4})?$"
_LABELS = frozenset(
    "pass passwort kennwort secret secrets token tokens key keys auth oauth login field input form label name user users username email mail"
    " text string type value values hash hashed digest crypt bcrypt scrypt argon bearer basic jwt plain encrypted encoded encryption masked required optional valid"
    " invalid wrong incorrect bad missing empty blank none new old current confirm confirmation confirmed reset forgot forgotten change update"
    " repeat verify validate enter your the example test tests testing dummy fake mock sample default env var variable from to path file id"
    " ref manager provider grant error message hint title param param query column credential credentials strong weak medium short long length"
    " visible visibility toggle policy min max prompt change generated random here insert replace and or with for not is set get".split()
)
"""Words of names: what a password is called, is stored as, or must be, rather than is."""


def is_plain_password(value: str, *, is_chain: bool = False) -> bool:
    """Return whether a value is made of words as a password may be, and names none.

    `is_chain` demands three words tied together, which no sentence, name of a variable or type has.
    """
    if len(value) < 6 or not compile_once(_CHAIN if is_chain else _PLAIN).match(value[:256]):
        return False
    words = {word.lower() for word in compile_once(_SPLIT).findall(value)}
    return (
        words.isdisjoint(_LABELS)
        and words.isdisjoint(_PASSWORDS)
        and (not is_chain or words.isdisjoint(_STOP))
    )


def is_literal_secret(value: str, kind: str) -> bool:
    """Return whether a literal value of a secret's name is a secret. The literal is in quotes, or on lines of its own."""
    if is_stand_in(value):
        return False
    return is_weak_key_value(value) if kind == "weak-key" else is_quoted_secret(value, kind)


def simplify_kind(kind: str) -> str:
    """Return the kind shown in a mark; how certain the name is does not belong there."""
    return "key" if kind == "weak-key" else kind


_STOP = frozenset(
    "your the enter must is a an to of for and or not with please at least in new be this"
    " de la el un una es est le les des der die das und ist per il di que por para con da os".split()
)


def is_phrase(value: str) -> bool:
    """Return whether the text is a passphrase of plain words, not a sentence about one."""
    words = value.split()
    return (
        4 <= len(words) <= 24
        and all(w.islower() and w.isalpha() and w.isascii() for w in words)
        and _STOP.isdisjoint(words)
    )


def is_weak_key_value(value: str) -> bool:
    """Return whether the value of some *_KEY is random enough: not a hash, an id or a name."""
    return (
        len(value) >= 20
        and is_random(value)
        and not compile_once(UUID).match(value)
        and not compile_once(HASH).match(value)
    )


def is_memorable(value: str) -> bool:
    """Return whether the value is long and unusual enough to be redacted without its context."""
    if not 8 <= len(value) <= 512 or any(c.isspace() for c in value):
        return False
    return (any(map(str.isdigit, value)) and any(map(str.isalpha, value))) or (
        len(value) >= 16 and (is_random(value) or is_plain_password(value, is_chain=True))
    )
