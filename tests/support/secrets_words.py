"""Made-up secrets that look like words, that colours split, that were asked for, and in places of other programs.

When these were new, 0.02 of the words, none of the coloured ones and 0.01 of the places were caught.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from secrets_generator import ALNUM, HEX, Sample, b64, pick

_VALUES = "violet-anchor-meadow-thirteen violet_anchor_meadow violetAnchorMeadow letmein MyDogRex7 пароль123".split()
_CLEAR = [
    "DB_PASSWORD={s}", 'password: "{s}"', '"password": "{s}"', "password = '{s}'", "export PGPASSWORD={s}", "--password={s}",
    "<password>{s}</password>", "  db_passwd: '{s}'", '- name: DB_PASSWORD\n  value: "{s}"', 'spring.datasource.password="{s}"',
]  # fmt: skip
_TIED = [
    "the password is {s}", "password: {s}", "--password {s}", "ENV DB_PASSWORD {s}", "the admin password is `{s}`",
    "Server=db;Uid=sa;Pwd={s};", "setPassword('{s}')", "DB_PASSWORD={s}\nThe passphrase {s} works", '"pass": "{s}"',
]  # fmt: skip
_COLOURED = [
    "\x1b[35m.env\x1b[0m:\x1b[01;31m\x1b[Kghp_\x1b[m\x1b[K{s}", "DB_\x1b[1mPASSWORD\x1b[0m=\x1b[32m{s}\x1b[0m", "\\u001b[1mpassword\\u001b[0m=\\u001b[32m{s}\\u001b[0m",
    "**ghp_**{s}", "key = \"ghp_abc\" +\n    \"{s}\"", "\x1b]8;;x\x07API_KEY\x1b]8;;\x07=\x1b[3m{s}\x1b[0m",
]  # fmt: skip
_LINES = """\
ConvertTo-SecureString '{s}' -AsPlainText -Force
ConvertTo-SecureString -String "{s}" -AsPlainText
<property><name>db.password</name><value>{s}</value></property>
<key>password</key>\\n  <string>{s}</string>
.site.example\\tTRUE\\t/\\tTRUE\\t1799999999\\tuser_session\\t{s}
session_id={s}
hmac key: {s}
session key = "{s}"
PRAGMA key='{s}'
zip -r -P {s} a.zip b
sqlcmd -S h -U sa -P {s}
snowsql -a x -u me -p {s}
smbclient //h/s -U me%{s}
sqlplus me/{s}@db
rabbitmqctl add_user me {s}
mc alias set m http://h minioadmin {s}
net use z: \\\\\\\\h\\\\s {s} /user:me
cy.get('[name=password]').type('{s}')
driver.find_element('password').send_keys('{s}')
page.getByLabel('Password').fill("{s}")
{{password, "{s}"}}
login with admin / {s}
use {s} to log in as admin
use this to log in:\\n\\n{s}
Which password? {s}
asked "What is the DB password?", the user answered "{s}"
https://hooks.zapier.com/hooks/catch/1234567/a{s}
""".splitlines()
_PLACES = [line.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\") for line in _LINES]
_SHAPES = {
    "htpasswd": "admin:$apr1${a8}${a22}", "shadow": "root:$6${a16}${a86}:19000:0:99999:7:::", "firebase": "AAAA{a7}:APA91b{a134}",
    "facebook": "EAA{a180}", "jwe": "eyJ{a33}..{a16}.{a40}.{a22}", "jfrog": "cmVmdGtuOjAxOjE3{a50}", "random key": "key: {a40}",
}  # fmt: skip
_ASKED = {
    "all": ("What is the DB password?", "{s}"), "last line": ("Please enter the passphrase for the backup:", "here it is:\n{s}"),
    "quoted": ("I need the admin password to go on. Can you share it?", "it is `{s}` I think"), "pin": ("Which PIN should I type?", "{p}"),
    "code": ("Please paste the verification code that you got.", "{p}"), "word": ("What's the password of the router?", "{w}"),
    "key": ("Could you give me the API key for staging?", "{s}"), "German": ("Wie lautet das Passwort?", "{w}"),
}  # fmt: skip


def worded(seed: int = 20260518) -> Iterator[Sample]:
    """Passwords made of words, behind a clear name; chains of them anywhere after one."""
    rng = random.Random(seed)
    words = "violet anchor meadow thirteen copper lantern river maple saddle orchid".split()
    for place in _CLEAR:
        for value in _VALUES:
            if value.isascii() or "--" not in place:
                yield Sample("word", place, place.format(s=value), value)
    for place in _TIED:
        for _ in range(6):
            value = "-".join(rng.sample(words, rng.randint(3, 5)))
            yield Sample("chain", place, place.format(s=value), value)


def coloured(seed: int = 20260519) -> Iterator[Sample]:
    """Secrets that are not in one piece, or whose names are not."""
    rng = random.Random(seed)
    for place in _COLOURED:
        for _ in range(6):
            value = pick(rng, ALNUM, 36)
            yield Sample("coloured", place, place.format(s=value), value)


def placed(seed: int = 20260520) -> Iterator[Sample]:
    """Secrets in places that other sets have not, and shapes."""
    rng = random.Random(seed)
    for place in _PLACES:
        for _ in range(6):
            value = (
                f"Zq{pick(rng, ALNUM, 26)}7" if "use" not in place else f"Zq{pick(rng, ALNUM, 12)}7"
            )
            yield Sample("placed", place, place.format(s=value), value)
    for name, shape in _SHAPES.items():
        for _ in range(6):
            text = shape
            for size in (7, 8, 16, 22, 33, 40, 50, 86, 134, 180):
                text = text.replace(f"{{a{size}}}", pick(rng, ALNUM, size))
            longest = max(
                text.replace(":", " ").replace("$", " ").replace("..", " ").split(), key=len
            )
            yield Sample(name, name, text, longest[-40:])
    for _ in range(6):
        modulus, prime = b64(rng, 60), b64(rng, 40)
        yield Sample("xml", "xml", f"<RSAKeyValue><Modulus>{modulus}</Modulus><P>{prime}</P></RSAKeyValue>", prime)  # fmt: skip


def given(seed: int = 20260521) -> Iterator[Sample]:
    """A question of the agent, a NUL, the user's answer, a NUL, and a later text with the secret."""
    rng = random.Random(seed)
    for name, (question, answer) in _ASKED.items():
        for number in range(6):
            parts = {
                "s": f"Xq{pick(rng, HEX, 4)}Asked!v{number}", "p": pick(rng, "123456789", 6),
                "w": rng.choice("swordfish butterfly elephants".split()),
            }  # fmt: skip
            secret = next(value for key, value in parts.items() if f"{{{key}}}" in answer)
            said = answer.format(**parts)
            yield Sample("given", name, f"{question}\0{said}\0./login.sh '{secret}' failed", secret)
