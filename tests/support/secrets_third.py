"""The third set of made-up secrets: contexts first kept out of tuning, then taken into it.

0.89 of them were caught when they were new.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator

from secrets_generator import ALNUM, HEX, SELF_EVIDENT, Sample, b64, carried, pem, pick, shapeless

FREE = {
    "question": "is {s} still valid?",
    "csv": "prod,{s},2024-05-01",
    "hash-rocket": "default_value => {s}",
    "shell-array": 'KEYS=("{s}" other)',
    "git-diff": "+++ b/.env\n@@ -1 +1 @@\n-A={s}\n",
    "ls": "-rw-r--r-- 1 dev dev 12 May  1 10:00 {s}.bak",
    "brackets": "[{s}]",
    "html": "<code>{s}</code>",
    "url-encoded": "redirect=https%3A%2F%2Fapp%2F%3Fk%3D{s}",
    "cjk": "请使用{s}登录",
}

ASSIGNED = {
    "scala": 'val dbPassword = "{s}"',
    "swift": 'let apiSecret: String = "{s}"',
    "lua": 'local access_token = "{s}"',
    "perl": "my $password = '{s}';",
    "r": 'Sys.setenv(API_TOKEN = "{s}")',
    "bash-local": "local admin_password='{s}'",
    "bash-default": "DB_PASSWORD=${{DB_PASSWORD:-{s}}}",
    "makefile": "API_TOKEN ?= {s}",
    "ansible": "- vars:\n    ansible_become_pass: {s}",
    "gradle": "signingPassword={s}",
    "maven": "<privateKey>/k</privateKey><passphrase>{s}</passphrase>",
    "appsettings": '"Jwt": {{ "SigningKey": "{s}", "Issuer": "acme" }}',
    "django": "'PASSWORD': '{s}',",
    "rails": "  secret_access_key: {s}",
    "terraform-out": 'db_password = "{s}"\nendpoint = "db.example.com"',
    "curl-json": 'curl -d \'{{"username":"app","password":"{s}"}}\' https://api.example.com/login',
    "curl-header": "curl -H 'X-Vault-Token: {s}' https://vault.example.com/v1/sys/health",
    "axios": "axios.defaults.headers.common['Authorization'] = 'Bearer {s}'",
    "graphql": 'mutation {{ login(user: "app", password: "{s}") {{ id }} }}',
    "redis-conf": "requirepass {s}",
    "wifi": "network={{ ssid=home psk-password={s} }}",
    "dotenv-space": "SMTP_PASSWORD = {s}",
    "docker-build": "docker build --build-arg NPM_TOKEN={s} .",
    "env-cmd": "env API_KEY={s} ./run.sh",
    "printenv": "HOME=/root\nGH_TOKEN={s}\nLANG=C",
    "mcp": '{{"mcpServers": {{"x": {{"env": {{"API_KEY": "{s}"}}}}}}}}',
}

PROSE = {
    "please": "please use this password: {s}",
    "our": "our staging token is {s}, don't commit it",
    "pass": "user is app and pass is {s}",
    "newline": "Password:\n{s}",
    "bold": "The **password** is **{s}**",
    "still": "the password is still {s}",
    "italian": "la password è {s}",
    "dutch": "het wachtwoord is {s}",
    "polish": "hasło to {s}",
    "chinese-token": "令牌是 {s}",
    "german-colon": "Passwort: {s}",
    "equals": "api key = {s}",
    "list": "* user: app\n* password: {s}\n",
}

COMMANDS = {
    "psql": "psql 'host=db user=app password={s} dbname=main'",
    "helm-login": "helm registry login hub.example.com -u app -p {s}",
    "twine": "twine upload -u __token__ -p {s} dist/*",
    "sshpass-env": "SSHPASS={s} sshpass -e ssh root@10.0.0.5",
    "snow": "snowsql -a acme -u app --password={s}",
    "curl-upload": "curl --user app:{s} -T a.txt ftp://files.example.com",
    "export-multi": "export A=1 DB_PASSWORD={s} B=2",
    "printf": "printf '%s' '{s}' | podman login -u app --password-stdin hub",
    "op": "op item create title=db password={s}",
    "wrangler": "echo {s} | wrangler secret put API_TOKEN",
    "unzip": "unzip -P {s} a.zip",
    "smb": "smbclient //nas/x -U app%{s}",
}

URLS = {
    "clickhouse": "clickhouse://app:{s}@ch:9000/default",
    "nats": 'nats.connect("nats://app:{s}@nats:4222")',
    "remote": "origin\thttps://oauth2:{s}@git.example.com/app.git (fetch)",
    "sqlalchemy": 'create_engine("postgresql+psycopg://app:{s}@db/main")',
}


def bound(rng: random.Random) -> Iterator[Sample]:
    """Secrets in the formats of particular files and programs."""
    block, line = pem(rng, "OPENSSH ")
    yield Sample(
        "private-key",
        "indented",
        "key: |\n" + "\n".join("    " + x for x in block.split("\n")),
        line,
    )
    yield Sample(
        "private-key",
        "numbered",
        "\n".join(f"{i:6}\t{x}" for i, x in enumerate(block.split("\n"))),
        line,
    )
    coded = base64.b64encode(f"app:{pick(rng, ALNUM, 18)}".encode()).decode()
    yield Sample("npmrc", "auth quoted", f'_auth="{coded}"', coded)
    yield Sample("proxy-header", "header", f"Proxy-Authorization: Basic {coded}", coded)
    token = pick(rng, HEX, 40)
    yield Sample("github-old", "header", f"Authorization: token {token}", token)
    key = b64(rng, 64)
    yield Sample("azure-storage", "cli", f"az storage blob list --account-key {key}", key)
    yield Sample(
        "cookie", "rack", f"Set-Cookie: _app_session={b64(rng, 60)}--{token}; path=/", token
    )
    yield Sample("kubeconfig", "token", f"users:\n- name: ci\n  user:\n    token: {token}\n", token)


def third(seed: int = 20250115) -> list[Sample]:
    """The samples of the third set, each in each carrier."""
    return carried(_samples(random.Random(seed)))


def _samples(rng: random.Random) -> Iterator[Sample]:
    for kind, make in SELF_EVIDENT.items():
        for name, template in FREE.items():
            value, public = make(rng)
            yield Sample(kind, name, template.format(s=value), value, public)
    groups = {"assigned": ASSIGNED, "prose": PROSE, "command": COMMANDS, "url": URLS}
    for group, contexts in groups.items():
        yield from shapeless(rng, group, contexts)
    yield from bound(rng)
