"""Made-up secrets whose name stands on another line, in a column or in a call, and commands that stand twice in a text.

Of these 58 contexts 51 let one pass when they were new.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator

from secrets_generator import ALNUM, HEX, Sample, b64, pick

_PASSWORDS = """\
curl -sf https://x.example/health\\ncurl -u bob:{s} https://x.example/b
curl -O https://x.example/a | tar x\\ncurl --user 'bob:{s}' https://x.example/b
curl -b 'theme=dark' https://x.example\\ncurl -u bob:{s} https://x.example/b
curl https://x.example/a\\ncurl https://x.example/b\\ncurl -u bob:{s} https://x.example/c
redis-cli ping\\nredis-cli -a {s} ping
mysql -h a db < x\\nmysql -uroot -p{s} db
docker login -u bob r1\\ndocker login -u bob -p {s} r2
wget --password={t} u\\ncurl --user 'bob:{s}' u
openssl enc -aes-256-cbc -k {s} -in a
read -r PW <<< '{s}'
echo {s} | sudo -S ls
kubectl create secret generic x --from-literal=db={s}
db.internal:5432:app:bob:{s}
*:*:*:admin:{s}
machine a.example login bob password {s}
machine a.example\\n  login bob\\n  password {s}
auth:\\n  passphrase: >-\\n    {s}
kind: Secret\\nstringData:\\n  user: bob\\n  admin: {s}
psk="{s}"
psk={s}
parser.add_argument('--password', default='{s}')
@click.option("--password", help="the password", default="{s}")
session.auth = ('bob', '{s}')
requests.get(url, auth=('bob', '{s}'))
DriverManager.getConnection(url, "app", "{s}");
$db = new mysqli('h', 'u', '{s}', 'd');
$pdo = new PDO($dsn, 'u', '{s}');
$pdo = new PDO('mysql:host=h;dbname=d', 'u', '{s}');
new UsernamePasswordToken("u", "{s}")
login('b@x.example', '{s}')
config.password = %q({s})
INSERT INTO users (name, password) VALUES ('bob', '{s}');
INSERT INTO users (password, name) VALUES ('{t}', 'ann'),\\n  ('{s}', 'bob');
email,password\\nbob@x.example,{t}\\nann@x.example,{s}
name\\tpassword\\nbob\\t{s}
| user | password |\\n|---|---|\\n| bob | {s} |
| user | pass |\\n|---|---|\\n| bob | `{s}` |
Login: admin / {s}
log in as admin with pw {s}
- name: DB_PASSWORD\\n  value: "{s}"
""".splitlines()

_KEYS = """\
auth:\\n  token: |\\n    {s}
kind: Secret\\ndata:\\n  tls.key: {b}
apiVersion: v1\\ndata:\\n  a: {b}\\nkind: Secret
{"kind": "Secret",\\n "data": {\\n  "a": "{b}"\\n }\\n}
PresharedKey = {b}
<property name="secretKey">\\n  <value>{s}</value>\\n</property>
secret_key: str = Field('{s}')
secret_key: str = Field(default="{s}")
public string ApiKey { get; set; } = "{s}";
var key = []byte("{s}")
let secret: &[u8] = b"{s}";
let key: &[u8; 32] = b"{s}";
hmac = "{b}"
SONAR: sqp_{h}
aws, secret access key\\n{a}
api_keys = [\\n  "{s}",\\n]
API_TOKEN = (\\n    '{t}'\\n    '{s}'\\n)
- name: API_KEY\\n  value: {s}
""".splitlines()


def on_lines() -> list[Sample]:
    """Every place with values of its kind: as text, inside JSON, and as added and removed lines of a diff."""
    return list(_samples(random.Random(21)))


def _samples(r: random.Random) -> Iterator[Sample]:
    for place in _PASSWORDS:
        for value in (f"kestrel{pick(r, string.digits, 3)}JXPp", f"Maple!{pick(r, ALNUM, 8)}7"):
            yield from _carried(place, value, "{s}", r)
    for place in _KEYS:
        mark = next(mark for mark in ("{a}", "{b}", "{h}", "{s}") if mark in place)
        for _ in range(2):
            yield from _carried(place, _key(r, mark), mark, r)


def _key(r: random.Random, mark: str) -> str:
    if mark == "{a}":
        return pick(r, ALNUM + "/+", 40)
    if mark == "{b}":
        return b64(r, 32)
    return pick(r, HEX, 40) if mark == "{h}" else pick(r, ALNUM, 31) + "7"


def _carried(place: str, value: str, mark: str, r: random.Random) -> Iterator[Sample]:
    other = pick(r, ALNUM, 14) + "4"
    text = place.replace("\\n", "\n").replace("\\t", "\t").replace("{t}", other)
    lines = f"first line\n{text.replace(mark, value)}\nlast line".split("\n")
    plain = "\n".join(lines[1:])
    for carrier, carried in (
        ("text", plain),
        ("json", json.dumps({"file_path": "src/x", "content": plain})),
        ("added", "@@ -0,0 +1 @@\n" + "\n".join(f"+{line}" for line in lines)),
        ("added, no head", "Keep this:\n" + "\n".join(f"+{line}" for line in lines)),
        ("removed", "@@ -1 +0,0 @@\n" + "\n".join(f"-{line}" for line in lines)),
        ("removed, no head", "Keep this:\n" + "\n".join(f"-{line}" for line in lines)),
        ("context", "@@ -1 +1 @@\n-a\n" + "\n".join(f" {line}" for line in lines)),
    ):
        yield Sample("password", f"{place} / {carrier}", carried, value)
