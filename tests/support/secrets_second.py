"""The second set of made-up secrets: contexts first kept out of tuning, then taken into it.

0.87 of them were caught when they were new.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Iterator

from secrets_generator import (
    ALNUM,
    HEX,
    SELF_EVIDENT,
    UPPER,
    Sample,
    b64url,
    carried,
    pick,
    prefixed,
    shapeless,
)

ISSUED_ELSEWHERE = {
    "twitch": prefixed("oauth:", string.ascii_lowercase + string.digits, 30),
    "perplexity": prefixed("pplx-", ALNUM, 48),
    "replicate": prefixed("r8_", ALNUM, 37),
    "xai": prefixed("xai-", ALNUM, 80),
    "pulumi": prefixed("pul-", HEX, 40),
    "postman": lambda r: (f"PMAK-{pick(r, HEX, 24)}-{pick(r, HEX, 34)}", "PMAK-"),
    "supabase": prefixed("sbp_", HEX, 40),
    "figma": prefixed("figd_", ALNUM + "-_", 40),
    "mailgun": prefixed("key-", HEX, 32),
    "square": prefixed("sq0csp-", ALNUM + "-_", 43),
    "rubygems": prefixed("rubygems_", HEX, 48),
    "doppler": prefixed("dp.pt.", ALNUM, 43),
    "aws-session": prefixed("ASIA", UPPER, 16),
    "langsmith": lambda r: (f"lsv2_pt_{pick(r, HEX, 32)}_{pick(r, HEX, 10)}", "lsv2_pt_"),
}

FREE = {
    "remote": "git remote set-url origin https://{s}@git.example.com/acme/app.git",
    "basic-user": "curl -s -u {s}: https://api.example.com/v1/charges",
    "traceback": "httpx.HTTPStatusError: 401 for key {s}\n  File \"app.py\", line 3",
    "log-json": '{{"level":"warn","msg":"using {s}","ts":1714550400}}',
    "comment": "# TODO remove {s} before the release",
    "list": "keys = ['{s}', 'other']",
    "colour": "\x1b[32m{s}\x1b[0m ok",
    "grep": "src/app.ts:14:  value: '{s}',",
    "paren": "We rotated it (was {s}) last week.",
    "thinking": "The user gave me {s}; I should not print it.",
}  # fmt: skip

ASSIGNED = {
    "java": 'private static final String DB_PASSWORD = "{s}";',
    "csharp": '"ConnectionStrings": {{"Main": "Server=db;User Id=sa;Password={s};Encrypt=true"}}',
    "jdbc": "jdbc:postgresql://db:5432/main?user=app&password={s}&ssl=true",
    "rust": 'let api_key = String::from("{s}");',
    "compose": "    environment:\n      - POSTGRES_PASSWORD={s}\n      - TZ=UTC",
    "compose-map": "    environment:\n      MYSQL_ROOT_PASSWORD: {s}\n",
    "systemd": 'Environment="API_TOKEN={s}"',
    "hcl": 'variable "db_password" {{\n  default = "{s}"\n}}',
    "tfvars": 'db_password = "{s}"',
    "heroku": "heroku config:set SESSION_SECRET={s} --app acme",
    "heroku-out": "=== acme Config Vars\nSESSION_SECRET:  {s}\nTZ:              UTC",
    "header-dict": 'headers = {{"x-api-key": "{s}", "accept": "*/*"}}',
    "fetch": "fetch(url, {{ headers: {{ Authorization: `Bearer ${{t}}`, 'X-Auth-Token': '{s}' }} }})",
    "private-token": 'curl --header "PRIVATE-TOKEN: {s}" https://git.example.com/api/v4/projects',
    "form": "curl -d 'grant_type=client_credentials&client_id=acme&client_secret={s}' https://id.example.com/token",
    "sts": '{{"Credentials": {{"SecretAccessKey": "{s}", "Expiration": "2030-01-01T00:00:00Z"}}}}',
    "kwargs": 'redis.Redis(host="cache", port=6379, password="{s}")',
    "elixir": 'config :app, secret_key_base: "{s}"',
    "kotlin": 'val clientSecret: String = "{s}"',
    "setx": 'setx API_TOKEN "{s}"',
    "fish": "set -x API_TOKEN {s}",
    "table": "| Variable | Value |\n|---|---|\n| DB_PASSWORD | {s} |",
    "helm": "helm install db chart --set auth.password={s} --wait",
    "ci-log": "2024-05-01T10:00:00Z   env: NPM_TOKEN: {s}",
    "pat": "export GITHUB_PAT={s}",
    "webpack": 'new webpack.DefinePlugin({{"process.env.API_SECRET": JSON.stringify("{s}")}})',
    "setenv": 'monkeypatch.setenv("API_TOKEN", "{s}")',
    "gh-secret": 'gh secret set DEPLOY_TOKEN --body "{s}"',
    "html": '<input type="hidden" name="api_token" value="{s}">',
    "nested": '{{"env": {{"DB_PASSWORD": "{s}"}}, "cwd": "/app"}}',
}  # fmt: skip

PROSE = {
    "pw": "ssh in as deploy, pw: {s}",
    "changed": "I changed the root password to {s} this morning",
    "creds": "creds are admin / {s}",
    "token-arrow": "here is the token for staging: {s}",
    "key-for": "The API key for the sandbox is {s}.",
    "secret-was": "the client secret was {s} before the rotation",
    "with": 'log in as admin with password "{s}"',
    "parens": "user admin (password: {s})",
    "german": "der Token lautet {s}",
    "german-for": "das Passwort für den Server ist {s}",
    "portuguese": "a senha é {s}",
    "russian": "пароль: {s}",
    "korean": "비밀번호는 {s} 입니다",
    "table": "Host: db1\nUser: app\nPassword: {s}\nPort: 5432",
    "reversed": "{s} is the password, keep it safe",
}

COMMANDS = {
    "mongosh": "mongosh --host db -u root -p {s} --authenticationDatabase admin",
    "gpg": "gpg --batch --passphrase {s} -d a.gpg",
    "chpasswd": "echo 'root:{s}' | chpasswd",
    "az": "az login --service-principal -u app -p {s} --tenant t",
    "kubectl-token": "kubectl config set-credentials dev --token={s}",
    "npm-set": "npm config set //npm.example.com/:_authToken {s}",
    "curl-proxy": "curl --proxy-user app:{s} https://example.com",
    "httpie": "http -a deploy:{s} https://api.example.com",
    "lftp": "lftp -u deploy,{s} ftp.example.com",
    "zip": "7z a -p{s} out.7z data/",
    "ldap": "ldapsearch -x -D cn=admin -w {s} -b dc=example",
    "ssh-keygen": "ssh-keygen -t ed25519 -N '{s}' -f id",
    "keytool": "keytool -list -keystore a.jks -storepass {s}",
    "mariadb": "mariadb -uroot -p'{s}' -e 'show tables'",
    "multiline": "curl -X POST \\\n  -u deploy:{s} \\\n  https://api.example.com",
    "stdin-here": "docker login -u app --password-stdin <<< {s}",
}

URLS = {
    "mysql": "mysql://app:{s}@db:3306/main?ssl=1",
    "ftp": "wget ftp://deploy:{s}@files.example.com/a.zip",
    "proxy": "export https_proxy=http://app:{s}@proxy.example.com:3128",
    "smtp": "SMTP_URL=smtps://mailer:{s}@mail.example.com:465",
    "pip": "pip install --index-url https://ci:{s}@pkgs.example.com/simple app",
}


def bound(rng: random.Random) -> Iterator[Sample]:
    """Secrets in the formats of particular files."""
    word = "harbor" + pick(rng, string.digits, 5)
    yield Sample("pgpass", "file", f"db.example.com:5432:main:app:{word}\n", word)
    coded = base64.b64encode(pick(rng, ALNUM, 24).encode()).decode()
    yield Sample(
        "k8s-secret", "data", f"kind: Secret\ndata:\n  password: {coded}\n  user: YXBw", coded
    )
    yield Sample("python-auth", "tuple", f'requests.get(url, auth=("app", "{word}"))', word)
    token = b64url(rng, 48)
    yield Sample("aws-session-token", "env", f"export AWS_SESSION_TOKEN={token}", token)
    yield Sample(
        "digest", "cookie jar", f".example.com\tTRUE\t/\tTRUE\t0\tsessionid\t{token}", token
    )
    yield Sample(
        "cookie", "json", json.dumps({"headers": {"cookie": f"sid={token}; theme=dark"}}), token
    )
    yield Sample(
        "oauth", "url", f"https://app.example.com/cb#access_token={token}&expires_in=3600", token
    )
    yield Sample(
        "oauth", "json", json.dumps({"access_token": token, "token_type": "bearer"}), token
    )
    yield Sample("oauth", "refresh", json.dumps({"refresh_token": "1//0" + token}), token)
    key = pick(rng, HEX, 64)
    yield Sample("ethereum", "env", f"PRIVATE_KEY=0x{key}", key)
    yield Sample("signing", "env", f"JWT_SIGNING_KEY={key}", key)
    yield Sample("sentry", "dsn", f"SENTRY_AUTH_TOKEN={key}", key)


def second(seed: int = 20240902) -> list[Sample]:
    """The samples of the second set, each in each carrier."""
    rng = random.Random(seed)
    return carried(_samples(rng))


def _samples(rng: random.Random) -> Iterator[Sample]:
    for kind, make in {**SELF_EVIDENT, **ISSUED_ELSEWHERE}.items():
        for name, template in FREE.items():
            value, public = make(rng)
            if "://" in value and "://" in template:
                continue
            yield Sample(kind, name, template.format(s=value), value, public)
    groups = {"assigned": ASSIGNED, "prose": PROSE, "command": COMMANDS, "url": URLS}
    for group, contexts in groups.items():
        yield from shapeless(rng, group, contexts)
    yield from bound(rng)
