"""What a secret looks like: issuers' token shapes, names of secrets, and conditions for
values.

Tables and judgements only; `redact` finds the places. Patterns are compiled on first use.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from tasuki.patterns import compile_pattern

# kind -> shape, in order of trial. Only what the issuer documents as secret; publishable keys (pk_…) are left out.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("aws_access_key", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("github_token", r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{40,255}"),
    ("anthropic_key", r"sk-ant-[\w-]{20,}"),
    ("openai_key", r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{20,})"),
    ("api_key", r"sk-[a-z0-9]{1,10}-[\w-]{20,}"),
    ("slack_token", r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{20,}"),
    ("google_key", r"AIza[\w-]{35}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,}"),
    ("stripe_key", r"[sr]k_(?:live|test)_[A-Za-z0-9_]{10,}|whsec_[A-Za-z0-9]{20,}"),
    ("npm_token", r"npm_[A-Za-z0-9]{36}"),
    ("gitlab_token", r"gl(?:pat|dt|rt|cbt|ptt|soat|imt|agent|ffct|ft|oas)-[\w.-]{20,}|GR1348941[\w-]{20,}"),
    ("huggingface_token", r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    ("pypi_token", r"pypi-[\w-]{40,}"),
    ("sendgrid_key", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
    ("twilio_key", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("digitalocean_token", r"do[opr]_v1_[0-9a-f]{64}"),
    ("discord_token", r"[MNO][A-Za-z0-9_-]{22,27}\.[\w-]{6}\.[\w-]{27,40}"),
    ("telegram_token", r"(?<=\d:)AA[\w-]{33}(?![\w-])"),
    ("azure_secret", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    ("jwt", r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+){0,3}"),
    ("age_key", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    ("shopify_token", r"shp(?:at|ca|pa|ss|ua|it)_[0-9a-fA-F]{32}"),
    ("databricks_token", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("vault_token", r"hv[sbr]\.[\w-]{24,}|[\w]{14}\.atlasv1\.[\w=-]{60,}"),
    ("atlassian_token", r"AT(?:ATT|CTT|BB)[\w=-]{24,}"),
    ("docker_token", r"dckr_[po]at_[\w-]{20,}"),
    ("grafana_token", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_eyJ[\w=-]{20,}"),
    ("tailscale_key", r"tskey-[a-z]+-[\w-]{20,}"),
    ("sonar_token", r"sq[pau]_[0-9a-f]{40}"),
    ("sentry_token", r"sntry[su]_[\w=-]{40,}"),
    ("supabase_key", r"sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}"),
    ("onepassword_token", r"ops_eyJ[\w=-]{40,}"),
    ("doppler_token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.]{30,}"),
    (
        "service_token",
        r"(?:lin_(?:api|oauth)_|ntn_|secret_|gsk_|xai-|pplx-|r8_|rubygems_|cio|figd_|nvapi-|tvly-(?:dev-|prod-)?|phx_|tfp_"
        r"|sq0[a-z]{3}-|NRAK-|NRII-|PMAK-|pul-|pscale_(?:tkn|pw|oauth)_|lsv2_(?:pt|sk)_|xkeysib-|re_|dt0[a-z]\d\d\.|fm[12]_"
        r"|jina_|e2b_|rnd_|LTAI|EAAA|key-|CFPAT-|napi_|vercel_|nfp_|ctx7sk-|fc-|cfut_|cfat_|sl\.u?\.?)[A-Za-z0-9][\w.=-]{19,}",
    ),
)  # fmt: skip

_ISSUED = frozenset(kind for kind, _ in _SHAPES) - {"service_token", "api_key", "openai_key"}


@cache
def compile_once(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, found by its text alone."""
    return compile_pattern(pattern)


_LONGEST = 4096  # characters of a token; longer ones are redacted up to here, which bounds the work on hostile text
_ANY_SHAPE = "|".join(shape for _, shape in _SHAPES)


def match_issued(text: str, start: int, end: int) -> tuple[str, int] | None:
    """Return the kind and the end of the issued token that starts at `start`, or None.

    One pattern without groups decides, since that fails fastest; the kind is looked up
    afterwards.
    """
    end = min(end, start + _LONGEST)
    found = compile_once(_ANY_SHAPE).match(text, start, end)
    if not found:
        return None
    kind = next(kind for kind, shape in _SHAPES if compile_once(shape).match(text, start, end))
    return (kind, found.end()) if _is_issued(kind, found.group()) else None


_DUMMY = (
    r"xxxx|\*\*\*|•••|\.\.\.|…|\[REDACTED|(?i:your(?:[-_ ]|key|token|secret|api|pass)|change[-_]?me|replace[-_ ]?(?:me|with|this)|placeholder|redacted"
    r"|insert[-_ ]|dummy|example[-_. ]|[-_. ]example|<[a-z])|(.)\1{7}"
)


def _is_issued(kind: str, value: str) -> bool:
    """Return whether a value of an issuer's shape is a token, not a placeholder or a name."""
    if compile_once(_DUMMY).search(value):
        return False
    return kind in _ISSUED or is_random(value, often=10)


def is_random(value: str, often: int = 5) -> bool:
    """Return whether the value changes its kind of character too often for words with numbers.

    The kinds are lower case, upper case and digits. One change in `often` characters is enough
    if there are digits; letters alone need twice as many.
    """
    value = value[:256]
    classes = [
        "d" if c.isdigit() else "u" if c.isupper() else "l" if c.isalpha() else "-" for c in value
    ]
    changes = sum(a != b and "-" not in (a, b) for a, b in zip(classes, classes[1:], strict=False))
    digits = classes.count("d")
    return changes * often >= len(value) and (digits >= 2 or changes * often >= len(value) * 2)


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
    " app application license admin root session webhook jwt hmac crypto deploy subscription storage host function"
    " functions integration write read ingest server consumer project bot openai anthropic rails cookie role".split()
)
_PLURALS = {
    "passwords": "password",
    "secrets": "secret",
    "tokens": "token",
    "keys": "key",
    "credentials": "password",
    "creds": "password",
}
"""What the values of a list or mapping of that name are."""
_GLUED = (
    r"(?:password|passwd|passphrase|passwort|pwd|secret|authtoken|accesstoken|apitoken|bearertoken|bottoken|apikey|secretkey|accesskey"
    r"|accountkey|authkey|privatekey|licensekey|pgpass)$"
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
    " authority certificate ssh valid expected unexpected image csrf index row column join bypass compass dedupe".split()
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
    return last in ("key", "auth", "passwd", "password-stdin") or bool(
        find_secret_kind("api_" + tail) or find_plural_kind("api_" + tail)
    )


@lru_cache(maxsize=4096)
def find_secret_kind(name: str) -> str:
    """Return the kind of secret that a variable, field, flag or header of this name holds, or ''.

    `name` is in its own spelling: case and separators decide where its words end.
    """
    words = _split_words(name)
    if not words or not _NEUTRAL.isdisjoint(words):
        return "password" if words[-2:] in (["ssh", "pass"], ["ssh", "password"]) else ""
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
    if last == "key" and (before in _OWNERS or before == "aes" or words[-3:-1] == ["secret", "or"]):
        return "private-key" if before == "private" else "key"
    if last in ("credentials", "creds"):
        return "credentials"
    if last in ("authorization", "authkey") or name.strip("-").lower() in (
        "_auth",
        "auth",
        "x-auth",
    ):
        return "authorization"
    if last == "hmac" or (name.isupper() and last == "key" and before):
        return "weak-key"
    found = compile_once(_GLUED).search(last)
    return _find_glued_kind(found.group()) if found else ""


@lru_cache(maxsize=4096)
def find_plural_kind(name: str) -> str:
    """Return the kind of secrets that a list or mapping of this name holds, or ''."""
    words = _split_words(name)
    if not words or not _NEUTRAL.isdisjoint(words):
        return ""
    kind = _PLURALS.get(words[-1], "")
    return "" if kind == "key" and (len(words) < 2 or words[-2] not in _OWNERS) else kind


def _find_glued_kind(tail: str) -> str:
    if tail.endswith("key"):
        return "key"
    return "token" if tail.endswith("token") else "secret" if tail == "secret" else "password"


# ---- values --------------------------------------------------------------------------------------------------------

_REFERENCE = (
    r"(?i)\$[\w{(\[]|\$\$|%[\w({]|\{|<|!|@\w+/|\(|\[|--?[a-z][a-z-]*(?:=|$)|`|&|\*+$"
    r"|(?:https?|file|op|env|vault|ref|ssm|arn|sha\d+|aws|gcp|secret|keyring|data|urn)(?::|\+)"
    r"|(?:process|os|import|self|this|args|opts|config|settings|env|ctx|req|request|props|cfg|options|state|secrets)\."
)
_CALL = r"[A-Za-z_$][\w$.:]*[(\[]|.*(?:=>|->|\?\.|::|\(\)|\$\{|\{\{)"
_FILE = (
    r".*\.(?:json|txt|pem|key|ya?ml|env|py|tsx?|jsx?|go|rs|rb|md|toml|ini|cfg|conf|crt|html?|css|sh|java|php|sql|log|lock|com|io)"
    r"(?:[:#]\d+)*$"
)
_PATH = r"(?:[~.]{0,2}/)?[\w.@-]+(?:/[\w.@:*-]+)+/?$"
_DOTTED = r"[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*)+$"
_SNAKE = r"_*[A-Za-z]+\d{0,2}(?:_[A-Za-z]+\d{0,2}|_\d{1,2})+$"
_CAMEL = r"\$?[A-Za-z]?[a-z]+\d?(?:[A-Z][a-z]+\d?)*$|[A-Z][A-Z_]+\d?$"
_TECHNICAL = (
    r"(?i)(?:(?:sha|md|hs|rs|es|ps|utf|int|uint|float|base|aes|rsa|ed|oauth|http|ipv|argon|bcrypt|win|uuid|uuidv|web|gpt|python"
    r"|node|str|varchar|char)-?\d{1,4}(?:[-_.]?[a-z]{1,8}\d{0,4})?|[a-z]-?\d{1,5}|b64(?:enc|dec)|\d{1,4}[a-z]{1,2}|\d{1,4}(?:-[a-z]+){1,2}"
    r"|v?\d+(?:\.\d+)+(?:[-+.][\w.+-]*)?|\d{4}-\d\d-\d\d.*|\d\d?:\d\d.*|[\d.,:/_+-]+"
    r"|[\w.+-]{2,}@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}|claude-.*|gpt-.*|(?:toolu|msg|call|req|chatcmpl|resp)_.*)$"
)
_UUID = r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$"
HASH = r"(?i)(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})$"
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
    return bool(compile_once(_DUMMY).search(value) or compile_once(_REFERENCE).match(value))


def is_reference(value: str) -> bool:
    """Return whether the value is code, a path, a file, an address or a technical term."""
    if (
        compile_once(_CALL).match(value)
        or compile_once(_TECHNICAL).match(value)
        or (compile_once(_FILE).match(value) and not is_random(value))
    ):
        return True
    return bool(
        (compile_once(_PATH).match(value) or compile_once(_DOTTED).match(value))
        and not is_random(value)
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
    if len(value) < 6 or not letters:
        return False
    if compile_once(_CAMEL).match(value) or compile_once(_SNAKE).match(value):
        return len(value) >= 16 and is_random(value)
    return (
        digits >= 2
        or (digits >= 1 and len(value) >= 8)
        or (len(value) >= 20 and is_random(value))
        or any(c in "!@#%^&*+?~=" for c in value[1:])
    )


def is_bare_secret(value: str, kind: str = "") -> bool:
    """Whether a value without quotes is a secret, given that its place is one for secrets."""
    return is_hard(value, kind) and not is_placeholder(value) and not is_reference(value)


def is_quoted_secret(value: str, kind: str) -> bool:
    """Return whether a quoted literal assigned to a secret's name is a secret.

    It is hard, or one plain word for a password.
    """
    if " " in value or "\t" in value:
        return kind == "password" and is_phrase(value)
    if is_hard(value, kind):
        return True
    plain = value.islower() and value.isalpha() and len(value) >= 8
    return (plain and kind == "password") or (len(value) >= 16 and is_random(value))


def is_literal_secret(value: str, kind: str) -> bool:
    """Return whether a literal value of a secret's name is a secret.

    The literal is in quotes, or on lines of its own.
    """
    if is_placeholder(value) or is_reference(value):
        return False
    return is_weak_key_value(value) if kind == "weak-key" else is_quoted_secret(value, kind)


def simplify_kind(kind: str) -> str:
    """Return the kind shown in a mark; how certain the name is does not belong there."""
    return "key" if kind == "weak-key" else kind


_STOP = frozenset(
    "your the enter must is a an to of for and or not with please at least in new be this".split()
)


def is_phrase(value: str) -> bool:
    """Return whether the text is a passphrase of plain words, not a sentence about one."""
    words = value.split()
    return (
        4 <= len(words) <= 24
        and all(w.islower() and w.isalpha() for w in words)
        and _STOP.isdisjoint(words)
    )


def is_weak_key_value(value: str) -> bool:
    """Return whether the value of some *_KEY is random enough: not a hash, an id or a name."""
    return (
        len(value) >= 20
        and is_random(value)
        and not compile_once(_UUID).match(value)
        and not compile_once(HASH).match(value)
    )


def is_memorable(value: str) -> bool:
    """Return whether the value is long and unusual enough to be redacted without its context."""
    if not 8 <= len(value) <= 512 or any(c.isspace() for c in value):
        return False
    return (any(map(str.isdigit, value)) and any(map(str.isalpha, value))) or (
        len(value) >= 16 and is_random(value)
    )
