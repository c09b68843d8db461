"""Held-out samples: contexts written after the patterns were finished, on which nothing is tuned.

A context that is missed here stays missed until the set is moved to the tuned ones and a new one is written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from secrets_generator import HEX, SELF_EVIDENT, Sample, carried, pem, pick, shapeless

FREE = {
    "apology": "sorry, pasted the wrong one, it's {s}!",
    "yaml-list": "items:\n  - {s}\n  - other",
    "assert": 'assert client.credential == "{s}"',
    "shell-trace": "+ deploy --with {s}",
    "stack": "  at Client.send (client.js:10) [{s}]",
    "angle": "see <{s}> above",
    "fixture": "{{'value': '{s}', 'n': 3}}",
    "emoji": "✅ verified {s} 🎉",
}

ASSIGNED = {
    "dart": "const String apiKey = '{s}';",
    "objective": 'NSString *accessToken = @"{s}";',
    "vb": 'Dim password As String = "{s}"',
    "cpp": 'std::string db_password{{"{s}"}};',
    "zig": 'const password = "{s}";',
    "nix": 'services.x.adminPassword = "{s}";',
    "clojure": '{{:user "app" :password "{s}"}}',
    "k8s-string": "stringData:\n  password: {s}\n",
    "github-env": 'echo "API_TOKEN={s}" >> $GITHUB_ENV',
    "sed": "sed -i 's/^DB_PASSWORD=.*/DB_PASSWORD={s}/' .env",
    "tfstate": '"master_password": "{s}",',
    "log-kv": "level=info user=app token={s} path=/v1",
    "python-log": "DEBUG config: {{'user': 'app', 'password': '{s}'}}",
    "repr": "Settings(user='app', api_key='{s}', debug=False)",
    "url-form": "username=app&password={s}&remember=1",
    "har": '{{"name": "X-Auth-Token", "value": "{s}"}}',
    "cfn": "MasterUserPassword: {s}",
    "flask": "app.secret_key = '{s}'",
    "flask-config": "app.config['SECRET_KEY'] = '{s}'",
    "airflow": "AIRFLOW__CORE__FERNET_KEY={s}",
}

PROSE = {
    "whats": "what's wrong? my password is {s} and it fails",
    "new": "The new password is: {s}",
    "token-colon": "Token: {s}",
    "key-backtick": "Use the API key `{s}` for the tests.",
    "secret-dash": "client secret - {s}",
    "login": "you can log in with user admin and password {s}",
    "spanish-for": "la contraseña del servidor es {s}",
    "french-colon": "mot de passe : {s}",
    "it-is": "Regarding the password, it is {s}",
}

COMMANDS = {
    "mysqladmin": "mysqladmin -u root password '{s}'",
    "curl-short": "curl -sSfu app:{s} https://api.example.com",
    "nerdctl": "nerdctl login -u app --password {s} hub.example.com",
    "createuser": "psql -c \"ALTER USER app PASSWORD '{s}'\"",
    "set-role": "ALTER ROLE app WITH LOGIN PASSWORD '{s}';",
    "identified": "CREATE USER 'app'@'%' IDENTIFIED BY '{s}';",
    "rclone": "rclone config create nas webdav user app pass {s}",
    "flyctl": "fly secrets set API_KEY={s}",
    "vault": "vault kv put secret/app password={s}",
    "borg": "BORG_PASSPHRASE='{s}' borg create repo::a ~/data",
}

URLS = {
    "mssql": "mssql+pyodbc://sa:{s}@db/main",
    "imaps": "imaps://me:{s}@imap.example.com",
    "svn": "svn co https://svn:{s}@svn.example.com/trunk",
}


def bound(rng: random.Random) -> Iterator[Sample]:
    """Secrets in the formats of particular files and programs."""
    block, line = pem(rng, "EC ")
    yield Sample("private-key", "quoted", "\n".join("> " + x for x in block.split("\n")), line)
    yield Sample("private-key", "diff", "\n".join("+" + x for x in block.split("\n")), line)
    token = pick(rng, HEX, 48)
    yield Sample("header", "api-key scheme", f"Authorization: ApiKey {token}", token)
    yield Sample("cookie", "fetch", f"headers: {{ 'Cookie': 'auth_token={token}' }}", token)
    yield Sample("env", "docker inspect", f'"Env": ["PATH=/bin", "API_TOKEN={token}"]', token)


def held_out(seed: int = 20250607) -> list[Sample]:
    """The samples that nothing was tuned on, each in each carrier."""
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
