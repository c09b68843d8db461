"""Made-up secrets in the places where secrets occur, and look-alikes that are none.

Everything is drawn from a seeded generator and assembled at run time, so this file holds no string that a secret
scanner would report. Used by `tests/unit/draft/test_redact.py` and `bench/redaction.py`.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
WORDS = (
    "harbor copper violet ladder magnet pepper tunnel winter garden rocket silver falcon".split()
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One text with one secret in it; `public` is the fixed prefix that may stay readable."""

    kind: str
    context: str
    text: str
    secret: str
    public: str = ""


def pick(rng: random.Random, alphabet: str, size: int) -> str:
    """`size` characters of the alphabet, with at least one letter and one digit where it has both."""
    wanted = [kind for kind in (str.isalpha, str.isdigit) if any(map(kind, alphabet))]
    while True:
        value = "".join(rng.choice(alphabet) for _ in range(size))
        if size < 6 or all(any(map(kind, value)) for kind in wanted):
            return value


def b64(rng: random.Random, size: int) -> str:
    """Base64 of `size` random bytes."""
    return base64.b64encode(rng.randbytes(size)).decode()


def b64url(rng: random.Random, size: int) -> str:
    """Unpadded URL-safe base64 of `size` random bytes."""
    return base64.urlsafe_b64encode(rng.randbytes(size)).decode().rstrip("=")


def jwt(rng: random.Random) -> str:
    """A signed token of three parts, with a plausible header and payload."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = json.dumps({"sub": pick(rng, string.digits, 10), "iat": 1516239022}).encode()
    return f"{head}.{base64.urlsafe_b64encode(body).decode().rstrip('=')}.{b64url(rng, 32)}"


def prefixed(prefix: str, alphabet: str, size: int) -> Callable[[random.Random], tuple[str, str]]:
    """A maker of values that carry their issuer's fixed prefix."""
    return lambda rng: (prefix + pick(rng, alphabet, size), prefix)


def slack(rng: random.Random) -> tuple[str, str]:
    """A Slack bot token: two numbers and a random part."""
    numbers = f"{pick(rng, string.digits, 12)}-{pick(rng, string.digits, 13)}"
    return f"xoxb-{numbers}-{pick(rng, ALNUM, 24)}", "xoxb-"


def discord(rng: random.Random) -> tuple[str, str]:
    """A Discord bot token: user id in base64, time, signature."""
    ident = base64.b64encode(pick(rng, string.digits, 18).encode()).decode()
    return f"M{ident[1:]}.G{pick(rng, ALNUM, 5)}.{b64url(rng, 28)}", ""


SELF_EVIDENT: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "aws-access-key": prefixed("AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "github-classic": prefixed("ghp_", ALNUM, 36),
    "github-oauth": prefixed("gho_", ALNUM, 36),
    "github-server": prefixed("ghs_", ALNUM, 36),
    "github-fine": lambda r: (
        f"github_pat_{pick(r, ALNUM, 22)}_{pick(r, ALNUM, 59)}",
        "github_pat_",
    ),
    "openai": lambda r: (f"sk-{pick(r, ALNUM, 20)}T3Blbk" + f"FJ{pick(r, ALNUM, 20)}", "sk-"),
    "openai-project": prefixed("sk-proj-", ALNUM + "-_", 120),
    "anthropic": lambda r: (f"sk-ant-api03-{pick(r, ALNUM + '-_', 93)}AA", "sk-ant-api03-"),
    "openrouter": prefixed("sk-or-v1-", HEX, 64),
    "slack-bot": slack,
    "slack-app": lambda r: (
        f"xapp-1-A{pick(r, UPPER, 10)}-{pick(r, string.digits, 13)}-{pick(r, HEX, 64)}",
        "xapp-1-",
    ),
    "slack-webhook": lambda r: (
        f"https://hooks.slack.com/services/T{pick(r, UPPER, 8)}/B{pick(r, UPPER, 10)}/{pick(r, ALNUM, 24)}",
        "https://hooks.slack.com/services/",
    ),
    "google-api": prefixed("AIza", ALNUM + "-_", 35),
    "google-oauth": prefixed("ya29.", ALNUM + "-_", 120),
    "google-client": prefixed("GOCSPX-", ALNUM + "-_", 28),
    "stripe-live": prefixed("sk_" + "live_", ALNUM, 24),
    "stripe-restricted": prefixed("rk_" + "live_", ALNUM, 99),
    "stripe-test": prefixed("sk_" + "test_", ALNUM, 24),
    "stripe-webhook": prefixed("whsec_", ALNUM, 32),
    "npm": prefixed("npm_", ALNUM, 36),
    "gitlab": prefixed("glpat-", ALNUM + "-_", 20),
    "huggingface": prefixed("hf_", string.ascii_letters, 34),
    "pypi": lambda r: (
        "pypi-" + "AgEIcHlwaS5vcmc" + pick(r, ALNUM + "-_", 150),
        "pypi-AgEIcHlwaS5vcmc",
    ),
    "sendgrid": lambda r: (f"SG.{b64url(r, 16)}.{b64url(r, 32)}", "SG."),
    "twilio": prefixed("SK", HEX, 32),
    "digitalocean": prefixed("dop_v1_", HEX, 64),
    "discord-webhook": lambda r: (
        f"https://discord.com/api/webhooks/{pick(r, string.digits, 19)}/{pick(r, ALNUM + '-_', 68)}",
        "https://discord.com/api/webhooks/",
    ),
    "discord-bot": discord,
    "telegram": lambda r: (f"{pick(r, '123456789', 10)}:AA{pick(r, ALNUM + '-_', 33)}", ""),
    "azure-client": lambda r: (f"{pick(r, ALNUM, 3)}8Q~{pick(r, ALNUM + '-_', 34)}", ""),
    "jwt": lambda r: (jwt(r), "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."),
    "teams-webhook": lambda r: (
        f"https://acme.webhook.office.com/webhookb2/{pick(r, HEX, 32)}@x/IncomingWebhook/{pick(r, HEX, 32)}/y",
        "https://acme.webhook.office.com/webhookb2/",
    ),
    "age": prefixed("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "groq": prefixed("gsk_", ALNUM, 52),
    "shopify": prefixed("shpat_", HEX, 32),
    "databricks": prefixed("dapi", HEX, 32),
    "linear": prefixed("lin_api_", ALNUM, 40),
    "vault": prefixed("hvs.", ALNUM + "-_", 90),
    "docker-pat": prefixed("dckr_pat_", ALNUM + "-_", 27),
    "grafana": lambda r: (f"glsa_{pick(r, ALNUM, 32)}_{pick(r, HEX, 8)}", "glsa_"),
    "notion": prefixed("ntn_", ALNUM, 46),
    "new-relic": prefixed("NRAK-", UPPER, 27),
    "atlassian": prefixed("ATATT3xFfGF0", ALNUM + "-_", 180),
    "tailscale": lambda r: (
        f"tskey-auth-k{pick(r, ALNUM, 11)}CNTRL-{pick(r, ALNUM, 32)}",
        "tskey-auth-k",
    ),
}

# What people choose and what programs issue without a shape of their own: known only by where it stands.
SHAPELESS: dict[str, Callable[[random.Random], str]] = {
    "word-and-digits": lambda r: r.choice(WORDS) + pick(r, string.digits, 4),
    "mixed-16": lambda r: pick(r, ALNUM, 16),
    "symbols": lambda r: (
        r.choice(WORDS).title() + r.choice("#%*^!@") + pick(r, ALNUM, 8) + r.choice("!?+")
    ),
    "hex-32": lambda r: pick(r, HEX, 32),
    "base64-32": lambda r: b64(r, 30).replace("/", "x"),
    "urlsafe-43": lambda r: b64url(r, 32),
    "phrase": lambda r: "-".join(r.sample(WORDS, 4)) + "-" + pick(r, string.digits, 2),
}

FREE = {
    "user": "can you try again with {s} please? it worked yesterday",
    "user-end": "here you go: {s}",
    "assistant": "I found `{s}` in the old config, so I will move it out.",
    "sentence-end": "The deploy still uses {s}.",
    "quoted": 'client = Client("{s}")',
    "single-quoted": "client.login('{s}')",
    "command": "curl -s -H 'X-Thing: {s}' https://api.example.com/v1/items | jq .",
    "argument": "./deploy.sh prod {s} --dry-run",
    "tool-result": "  12→    value = {s}\n  13→    timeout = 30",
    "diff": "-  old: {s}\n+  new: none",
    "env": "export SOMETHING={s}",
    "table": "| service | {s} | 2024-05-01 |",
    "xml": "<item>{s}</item>",
    "query": "GET /v1/items?x={s}&page=2 HTTP/1.1",
    "log": "2024-05-01T10:00:00Z ERROR request failed: {s} (status 401)",
}

ASSIGNED = {
    "env": "DB_PASSWORD={s}\nDB_PORT=5432",
    "export": "export API_TOKEN={s}\nmake deploy",
    "export-quoted": 'export CLIENT_SECRET="{s}"',
    "yaml": "database:\n  user: app\n  password: {s}\n  port: 5432",
    "yaml-quoted": "auth:\n  token: '{s}'\n  retries: 3",
    "json": '{{"user": "app", "password": "{s}", "port": 5432}}',
    "json-camel": '{{\n  "clientSecret": "{s}",\n  "scope": "read"\n}}',
    "toml": '[db]\nuser = "app"\npassword = "{s}"',
    "dockerfile": "FROM python:3.12\nENV ADMIN_PASSWORD={s}\nRUN make",
    "dockerfile-space": "ENV ADMIN_PASSWORD {s}\nRUN make",
    "docker-e": "docker run -d -e POSTGRES_PASSWORD={s} -p 5432:5432 postgres:16",
    "python": 'SECRET_KEY = "{s}"\nDEBUG = True',
    "python-dict": "conn = connect(user='app', password='{s}', host=host)",
    "js": "const apiKey = '{s}';\nconst retries = 3;",
    "ts": 'const password: string = "{s}";',
    "php": "$config['db_password'] = '{s}';",
    "php-define": "define('DB_PASSWORD', '{s}');",
    "ruby": ":password => '{s}',",
    "environ": 'os.environ["API_KEY"] = "{s}"',
    "ini": "[client]\nuser=app\npassword={s}\n",
    "properties": "spring.datasource.password={s}\nspring.datasource.url=jdbc:h2:mem",
    "xml-element": "<server><username>app</username><password>{s}</password></server>",
    "k8s-env": "- name: DB_PASSWORD\n  value: {s}\n- name: DB_PORT",
    "powershell": '$env:API_TOKEN = "{s}"',
    "go": 'apiToken := "{s}"',
    "header": "X-Api-Key: {s}\nAccept: */*",
    "auth-bearer": "Authorization: Bearer {s}\nAccept: */*",
    "curl-bearer": 'curl -H "Authorization: Bearer {s}" https://api.example.com/me',
    "query-token": "GET https://api.example.com/v1?access_token={s}&page=2",
    "npmrc": "//npm.example.com/:_authToken={s}\n",
    "pgpass-env": "PGPASSWORD={s} psql -h db -U app main",
    "secret-env": "AWS_SECRET_ACCESS_KEY={s}",
    "md-bold": "- **Password:** {s}",
    "md-code": "- Password: `{s}`",
}

PROSE = {
    "password-is": "the password is {s}",
    "password-is-stop": "On staging the password is {s}. Please do not change it.",
    "for": "the admin password for the staging box is {s}, ask me if it fails",
    "my-token": "my token: {s}",
    "passphrase": "use passphrase '{s}' when gpg asks",
    "backticks": "log in as root, the password is `{s}`",
    "set-to": "I set the password to {s} for now",
    "quoted": 'The API key is "{s}" and expires in May.',
    "german": "das Passwort ist {s}",
    "french": "le mot de passe est {s}",
    "spanish": "la contraseña es {s}",
    "chinese": "密码是{s}",
    "chinese-colon": "数据库密码：{s}",
    "japanese": "パスワードは{s}です",
    "login-pair": "login: app, password: {s}",
}

COMMANDS = {
    "curl-u": "curl -u deploy:{s} https://api.example.com/items",
    "curl-user": "curl -sS --user 'deploy:{s}' https://api.example.com/items",
    "mysql-p": "mysql -u root -p{s} main < dump.sql",
    "mysql-password": "mysqldump --user=root --password={s} main",
    "sshpass": "sshpass -p {s} ssh root@10.0.0.5 uptime",
    "sshpass-quoted": "sshpass -p '{s}' scp a.txt root@10.0.0.5:",
    "flag-password": "./tool --user app --password {s} --verbose",
    "flag-token": "vercel deploy --token {s} --prod",
    "redis-cli": "redis-cli -h cache -a {s} ping",
    "docker-login": "docker login -u app -p {s} hub.example.com",
    "stdin": "echo {s} | docker login -u app --password-stdin hub.example.com",
    "stdin-quoted": 'echo "{s}" | gh auth login --with-token',
    "htpasswd": "htpasswd -bc .htpasswd app {s}",
    "openssl": "openssl rsa -in key.pem -passin pass:{s} -out plain.pem",
    "wget": "wget --http-user=app --http-password={s} https://files.example.com/a.zip",
    "aws-configure": "aws configure set aws_secret_access_key {s}",
    "kubectl": "kubectl create secret generic db --from-literal=password={s}",
    "netrc": "machine git.example.com login app password {s}",
    "netrc-lines": "machine git.example.com\n  login app\n  password {s}\n",
    "sql": "CREATE USER app WITH PASSWORD '{s}';",
    "argv": '["./tool", "--token", "{s}", "--verbose"]',
}

URLS = {
    "postgres": "DATABASE_URL=postgres://app:{s}@db.example.com:5432/main",
    "redis": "redis://:{s}@cache:6379/0",
    "https": "git clone https://app:{s}@git.example.com/app.git",
    "mongo": 'MongoClient("mongodb+srv://app:{s}@c0.abcde.mongodb.net/main")',
    "amqp": "broker: amqp://app:{s}@mq:5672/",
}


def pem(rng: random.Random, label: str = "RSA ") -> tuple[str, str]:
    """A private key block and the first line of its body."""
    lines = [b64(rng, 48) for _ in range(6)]
    kind = label + "PRIVATE" + " KEY"
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"]), lines[3]


def bound(rng: random.Random) -> Iterator[Sample]:
    """Secrets that come with a form of their own: key blocks, connection strings, cookies, config files."""
    for label in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""):
        block, line = pem(rng, label)
        yield Sample("private-key", f"pem {label}".strip(), block, line)
        yield Sample(
            "private-key", f"pem json {label}".strip(), json.dumps({"private_key": block}), line
        )
        yield Sample(
            "private-key", f"pem cut {label}".strip(), "$ cat k\n" + block.rsplit("\n", 3)[0], line
        )
    pgp, line = pem(rng, "PGP ")
    pgp = pgp.replace("KEY-----", "KEY BLOCK-----")
    yield Sample("private-key", "pgp", pgp, line)
    yield Sample("private-key", "double-escaped", json.dumps(json.dumps({"k": pgp})), line)
    key = b64(rng, 64)
    azure = f"DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={key};EndpointSuffix=core.windows.net"
    yield Sample("azure-storage", "connection string", azure, key)
    yield Sample("azure-storage", "json", json.dumps({"conn": azure}), key)
    key = b64(rng, 32)
    bus = (
        f"Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={key}"
    )
    yield Sample("azure-bus", "connection string", bus, key)
    sig = b64(rng, 32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    yield Sample(
        "azure-sas",
        "url",
        f"https://acme.blob.core.windows.net/c/f?sv=2022-11-02&sp=r&sig={sig}",
        sig,
    )
    yield Sample(
        "azure-sas", "signature", f"SharedAccessSignature=sv=2022&se=2030-01-01&sig={sig}", sig
    )
    basic = base64.b64encode(f"deploy:{pick(rng, ALNUM, 14)}".encode()).decode()
    yield Sample("basic-header", "header", f"Authorization: Basic {basic}", basic)
    yield Sample(
        "basic-header",
        "curl",
        f"curl -H 'authorization: basic {basic}' https://a.example.com",
        basic,
    )
    sid = pick(rng, ALNUM, 32)
    yield Sample("cookie", "request", f"Cookie: theme=dark; sessionid={sid}; lang=en", sid)
    yield Sample("cookie", "response", f"Set-Cookie: connect.sid=s%3A{sid}; Path=/; HttpOnly", sid)
    yield Sample("cookie", "curl", f"curl -b 'JSESSIONID={sid}' https://app.example.com", sid)
    data = b64(rng, 300)
    kube = f"users:\n- name: dev\n  user:\n    client-certificate-data: LS0tLS1CRUdJTg==\n    client-key-data: {data}\n"
    yield Sample("kubeconfig", "client key", kube, data)
    auth = base64.b64encode(f"app:{pick(rng, ALNUM, 20)}".encode()).decode()
    yield Sample(
        "docker-config", "auth", json.dumps({"auths": {"hub.example.com": {"auth": auth}}}), auth
    )
    yield Sample("npmrc", "auth", f"//npm.example.com/:_auth={auth}\n", auth)
    yield Sample("npmrc", "password", f"//npm.example.com/:_password={auth}\n", auth)
    secret = b64(rng, 30)
    keys = f"aws_access_key_id = {pick(rng, UPPER, 20)}\naws_secret_access_key = {secret}\nregion = eu-west-1"
    yield Sample("aws-secret", "credentials file", "[default]\n" + keys, secret)
    yield Sample(
        "aws-secret", "json", json.dumps({"SecretAccessKey": secret, "Region": "eu"}), secret
    )


CARRIERS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "written-file": lambda text: json.dumps(
        {"file_path": "/app/x", "content": "# setup\n" + text + "\n"}
    ),
    "tool-result": lambda text: "$ cat x\n" + text + "\n$ echo done",
}


def shapeless(rng: random.Random, group: str, contexts: dict[str, str]) -> Iterator[Sample]:
    """Every shapeless kind in every context of a group."""
    for kind, make in SHAPELESS.items():
        for name, template in contexts.items():
            if group == "url" and kind in ("symbols", "base64-32"):
                continue
            if (
                group == "command"
                and kind == "symbols"
                and "'" not in template
                and '"' not in template
            ):
                continue
            value = make(rng)
            yield Sample(f"{group}:{kind}", name, template.format(s=value), value)


def base_samples(rng: random.Random) -> Iterator[Sample]:
    """All tuned samples before they are put into a carrier."""
    for kind, make in SELF_EVIDENT.items():
        for name, template in FREE.items():
            value, public = make(rng)
            yield Sample(kind, name, template.format(s=value), value, public)
    groups = {"assigned": ASSIGNED, "prose": PROSE, "command": COMMANDS, "url": URLS}
    for group, contexts in groups.items():
        yield from shapeless(rng, group, contexts)
    yield from bound(rng)


def carried(samples: Iterator[Sample]) -> list[Sample]:
    """Each sample in each carrier."""
    return [
        Sample(s.kind, f"{s.context}/{name}", wrap(s.text), s.secret, s.public)
        for s in samples
        for name, wrap in CARRIERS.items()
    ]


def tuned(seed: int = 20240501) -> list[Sample]:
    """The samples that the patterns were tuned on."""
    return carried(base_samples(random.Random(seed)))


def leaked(sample: Sample, output: str) -> bool:
    """True when 8 or more consecutive characters of the secret, its public prefix aside, are still readable."""
    if sample.secret in output:
        return True
    private = sample.secret.removeprefix(sample.public)
    return any(private[i : i + 8] in output for i in range(max(1, len(private) - 7)))
