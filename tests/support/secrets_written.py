"""Made-up secrets in files that an agent writes: code, configuration, SQL, lists and mappings.

8 of 115 passed where an independent trial wrote such files. Of these contexts 59 of 215 let one pass when they were new.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator

from secrets_generator import ALNUM, Sample, pick

_PLACES = """\
var password string = "{s}"
Dim password As String = "{s}"
std::string password{"{s}"};
char ssid_pass[] = "{s}";
NSString *apiKey = @"{s}";
private static final String SECRET = "{s}";
#define WIFI_PASSWORD "{s}"
val apiKey = "{s}"
pwd := "{s}"
$config['db_password'] = '{s}';
'password' => '{s}',
define('DB_PASSWORD', '{s}');
define('SECURE_AUTH_SALT', '{s}');
const token = process.env.API_TOKEN || '{s}';
const secret = process.env.JWT_SECRET ?? "{s}"
token = os.environ.get("API_TOKEN") or "{s}"
os.environ.setdefault('API_TOKEN', '{s}')
os.getenv('API_TOKEN', '{s}')
app.config['SECRET_KEY'] = '{s}'
app.secret_key = b'{s}'
set_password("{s}")
user.set_password('{s}')
.withPassword("{s}")
HTTPBasicAuth('bob', '{s}')
login('bob', '{s}')
new NetworkCredential("bob", "{s}")
crypto.createHmac('sha256', '{s}')
jwt.sign(payload, '{s}')
hmac.compare_digest(token, '{s}')
Fernet(b'{s}')
client = OpenAI(api_key='{s}')
session({ secret: '{s}' })
secretOrKey: '{s}',
passwords = ["{s}"]
passwords = [\\n    "{s}",\\n]
secrets = {'db': 'x', 'a': 'correct-{s}'}
"password": ["{s}"]
"adminPassword": { "value": "{s}" }
<entry key="password">{s}</entry>
<add key="ApiKey" value="{s}" />
<password>{s}</password>
Environment="API_TOKEN={s}"
ENV API_TOKEN {s}
proxy_set_header X-Api-Key {s};
proxy_set_header Authorization "Bearer {s}";
CREATE USER 'a'@'%' IDENTIFIED BY '{s}';
ALTER USER app WITH PASSWORD '{s}';
SET PASSWORD FOR a = '{s}';
db:5432:app:bob:{s}
bindpw {s}
rootpw {s}
requirepass {s}
ansible_ssh_pass={s}
PASSWORD_PEPPER={s}
SERVICE_ROLE_KEY={s}
spring.datasource.password: {s}
storePassword '{s}'
key_passphrase={s}
sasl.jaas.config=x required username="a" password="{s}";
Server=db;User Id=sa;Password={s};Database=x
""".splitlines()

_AWS = """\
{k} with secret access key {s}
{k} / secret {s}
use {k} and secret key {s} please
key id {k}, secret {s}.
{k}:{s}
| {k} | {s} |
boto3.client('s3', '{k}', '{s}')
Access key ID,Secret access key\\n{k},{s}
{k}\\n{s}
s3 key {k} secret {s}
the secret {s} belongs to {k}
the key is AWS, secret key {s}
""".splitlines()


def written() -> list[Sample]:
    """Every place with a random value, an AWS secret and a password, as text and inside JSON."""
    return list(_samples(random.Random(11)))


def aws() -> list[Sample]:
    """Pairs of an AWS key, whose secret half has no shape of its own."""
    r = random.Random(12)
    return [
        Sample("aws-secret-key", place, carried.replace("{k}", key).replace("{s}", secret), secret)
        for place in _AWS
        for _ in range(5)
        for secret in [pick(r, ALNUM + "/+", 40)]
        for key in ["AKIA" + pick(r, string.ascii_uppercase + string.digits, 16)]
        for carried in _carriers(place)
    ]


def _samples(r: random.Random) -> Iterator[Sample]:
    for place in _PLACES:
        for kind, value in (
            ("random", pick(r, ALNUM, 31) + "7"),
            ("aws", pick(r, ALNUM + "/+", 40)),
            ("password", f"Hunter#{r.randrange(10, 99)}{pick(r, string.ascii_letters, 5)}9"),
        ):
            for carried in _carriers(place):
                yield Sample(kind, place, carried.replace("{s}", value), value)


def _carriers(place: str) -> list[str]:
    text = f"first line\n{place}\nlast line\n".replace("\\n", "\n")
    return [text, json.dumps({"file_path": "src/x", "content": text})]
