"""Texts that look like secrets and are none: nothing in them may be altered."""

from __future__ import annotations

import base64
import hashlib
import random
import uuid
from collections.abc import Iterator

from secrets_generator import ALNUM, CARRIERS, HEX, LOWER, b64, b64url, pick

PLACEHOLDERS = [
    "<your-token>", "$TOKEN", "${SECRET}", "${{ secrets.API_TOKEN }}", "xxxx", "xxxxxxxxxxxxxxxx", "changeme",
    "process.env.API_KEY", 'os.environ["TOKEN"]', "os.getenv('API_KEY')", "YOUR_API_KEY", "your-api-key-here",
    "****", "********", "...", "None", "null", "true", "false", "''", '""', "{{ vault_password }}", "%PASSWORD%",
    "$(cat token.txt)", "<redacted>", "[REDACTED:password]", "REPLACE_ME", "REDACTED", "sk-...", "ghp_xxxxxxxxxxxx",
    "sk-ant-...", "{password}", "`pass show db`", "$(op read op://vault/item)", "!secret db_password", "example",
    "args.token", "self._token", "import.meta.env.VITE_KEY", "settings.SECRET_KEY", "undefined", "TODO", "your_password",
]  # fmt: skip

PLACES = [
    "API_TOKEN={p}", "password: {p}", "export SECRET_KEY={p}", "token = {p}", 'api_key="{p}"', '{{"password": {p}}}',
    "curl -H 'Authorization: Bearer {p}' https://api.example.com", "mysql --password={p} main", "--token {p}",
    "postgres://app:{p}@db.example.com/main", "the password is {p}",
]  # fmt: skip

CODE = """
token = get_token()
password: str
password: str = Field(min_length=8)
password: string;
password?: string | null;
if password == "":
if (password !== confirmPassword) {
const key = keys[0]
const token = await getToken(user)
max_tokens=4096
"max_tokens": 8192,
"token_count": 1234
Client(credentials=None, retries_left=30)
raise InvalidGrantError('Invalid credentials given.', request=request_v2)
local all all "md5", "password", "scram-sha-256"
backends = ["vfox:plugins/vfox-1password", "aqua:1password/cli"]
"Resource": "arn:aws:lambda:*:*:function:report-builder2-*"
"Resource": ["arn:aws:rds:*:*:db:autoscaled-reader3*", "arn:aws:redshift:*:*:dbuser:*/etl_api_user2"]
"SecretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:Billing2Db-a1b2c3"
Value: arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/billing-Ca8JGt
"AWS::ApiGateway::ApiKey": "48205d4ffd7feba3", "AWS::IAM::AccessKey": "62d91b17309e76c8"
"SessionKeys": {"$ref": "#/definitions/SessionKeysV11"}
"PaginationToken": "efgh5678ijkl", --starting-token Z3M3LMPQ7abc
"DkimTokens": ["vvjuipp74whm76gqoni7qmwwn4w4qusj"]
it replicates the secret to eu-west-3 and us-gov-east-1
Authorization: AWS4-HMAC-SHA256
C: A1 AUTH=CRAM-MD5
derive_key("secret", "Ed25519")
GROUP_PAT = "fr.comp.lang2.*"
def make(api_key: ApiGatewayApiKey, token: Token=None):
it passes --pass `strict=False` on
auth("AddApiKeyRequiredToCorsPreflight")
printf(&quot;The password is correct.&quot;);
options `username`, `_password`, `certfile2`
"Credentials": [{"CredentialId": "8LApgk4-lNUFHbhm2w6Und7-uxcc8coJ", "UserName": "developer-at-12"}]
"Credentials": {"Policy": {"Sid": "DenyAllOtherActionsOnAnyResource", "Action": "s3:ListAllMyBuckets2"}}
'tokens': [(words(('_Bool', '_Decimal32', '_Decimal64')), Keyword.Type)]
required = ["username", "password", "certfile"]
the machine learning login flow password reset
db:5432:ready:yes:healthy
"input_tokens": 31337, "output_tokens": 1205
tokenizer=AutoTokenizer.from_pretrained("bert-base-uncased")
tokenizer = tiktoken.get_encoding("cl100k_base")
id INTEGER PRIMARY KEY AUTOINCREMENT
author="Jane Smith <jane@example.com>"
basic usage: run the tool with --help
Basic authentication is not supported by this server2
The Bearer token is missing or has expired
send a Bearer token with every request
secretName: my-secret-2
secretKeyRef: {name: db-credentials, key: password}
valueFrom: {secretKeyRef: {name: app-v2, key: token}}
.password-field2 { color: red; padding-left: 12px; }
<input type="password" id="password1" name="password" autocomplete="current-password">
<label for="password">Password</label>
github.com/stretchr/testify v1.9.0
golang.org/x/crypto v0.0.0-20210921155107-089bfa567519
version = "1.24.0-rc.1+build.5114f85"
2024-05-01T10:00:00.123456Z
model: claude-opus-4-5-20251101
"model": "gpt-4o-2024-08-06"
def test_token_refresh_401_retries_3_times() -> None:
tests/test_auth.py::TestLogin::test_password_reset_token2 PASSED
https://docs.example.com/guide/tokens?page=2&sort=asc#section-4
https://example.com/reset-password/confirm
git@github.com:acme/app.git
ssh://git@github.com/acme/app.git
user@example.com
task-runner-helper-utility-v2 risk-assessment-2024-final desk-lamp-model-b12x
npm run disk-usage-report-generator-2
self.token = token
token=token, password=password
password=args.password
def login(self, username: str, password: str) -> Token:
password = input("Password: ")
password = getpass.getpass()
secret = secrets.token_hex(32)
api_key = config["api_key"]
const secret = process.env.SECRET ?? "";
token: ${{ secrets.GITHUB_TOKEN }}
PASSWORD_MIN_LENGTH=12
TOKEN_TTL_SECONDS=3600
TOKEN_EXPIRY=15m
SECRET_NAME=prod/db/main
SECRET_FILE=/run/secrets/db_password
POSTGRES_PASSWORD_FILE=/run/secrets/pg
password_hash_algorithm: argon2id
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_USER_MODEL = "accounts.User2"
"next_page_token": "CAUQAA2x9Kd81Qe0"
nextToken: eyJsYXN0SWQiOjQyfQ
cache_key = f"user:{user_id}:v2"
sort_key = "created_at2"
partition_key: order#12345678
key: "user-profile-v2"
"key": "ArrowLeft2"
KEY_FILE=certs/server1.key
ssl_certificate_key /etc/nginx/certs/server1.key;
API_KEY_HEADER = "X-API-Key"
token_url="https://auth.example.com/oauth2/token"
"token_type": "bearer", "expires_in": 3600
grant_type=password
grant_type=refresh_token&scope=offline2
type: password
the password is required and must have at least 8 characters
the password is hashed with bcrypt12
the password is stored in /etc/app/secret2.txt
the token is invalid (401) and was refreshed
passwords must contain 1 digit and 1 symbol
the secret is mounted at /run/secrets/db1
Enter password for user1:
[sudo] password for deploy2:
password authentication failed for user "app2"
Wrong password. Attempt 3/5
token expired at 2024-05-01T10:00:00Z
SyntaxError: Unexpected token 'b4' at position 12
Unexpected token: punc1 (line 12)
tokens: 12,345 in / 678 out
Token usage: total=1205 input=931 output=274
Tokens used: 45k/200k (22%)
cookie: theme=dark
Set-Cookie: lang=en; Path=/
cookies.get("sessionid2")
Cookie consent banner v2
curl -u "$USER:$PASS" https://api.example.com
curl -u user https://api.example.com/v2
mysql -u root -p main
ssh -p 2222 root@10.0.0.5
mkdir -p src/components/password2
docker run -p 8080:80 nginx:1.25
psql -p 5433 -U app main2
cp -a build2/ dist/
redis-cli -h localhost -p 6379 ping
redis-cli --scan --pattern 'session:*'
python -m pytest -p no:cacheprovider -u
docker login -u app --password-stdin
cd login && mkdir -p build && docker run -p 8080:80 nginx
docker run --name mongo -p 27017:27017 -v data:/data/db mongo:7
echo $TOKEN | docker login -u app --password-stdin
echo "done 42" | tee log2.txt
pass: 12 fail: 3
12 passed, 3 failed
PASS tests/unit/token2.test.ts
=== PASS: TestSecret2 (0.01s)
secrets: inherit
credentials: include
credentials: "same-origin"
withCredentials: true
Access-Control-Allow-Headers: Authorization, X-Api-Key2
sig=ab
signature: (a: number, b2: string) => void
export type TokenKind2 = "identifier" | "number";
case Token.STRING2: return "string";
kubectl get secret db-credentials2 -o yaml
vault kv get secret/app2
gh secret set API_TOKEN2 < token.txt
import { API_KEY2 } from "./config2";
git commit -m "fix(auth2): refresh token before expiry"
session: 3f
--session-id 0d6b2c1a
The password field (input#password2) is empty
Forgot password? Click reset-link-2
password reset email sent to user2@example.com
passport=AB123
compass=ne42 bypass: lane2
-----BEGIN CERTIFICATE-----
The "sk-" prefix marks keys; "AKIA" and "ghp_" too
<Token>identifier2</Token>
Foreign key: user_id2 references users(id)
monkey=banana7 keyboard: qwerty1 turkey: 2kg
keybinding: ctrl+shift+p2
i18n key: auth.password.reset2.title
t("auth.password.label2")
label.password=Password
errors.password.too_short=Password is too short (minimum 8)
public_key = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"
AWS_PROFILE=prod2 AWS_REGION=eu-west-1
basic_auth_user: app2
use_basic_auth2: true
http://localhost:3000/login?next=/token2
http://[::1]:8080/path
scheme://user:pass@host
https://user:password@example.com/
postgres://postgres:postgres@localhost:5432/test
token budget: 200k2
thinking tokens: 1024
das Passwort ist falsch
le mot de passe est requis
la contraseña es obligatoria
密码是必填项
パスワードは必須です
密码长度至少8位
| 1Password | `1password` | vault |
sessions are identified as "orphaned"
the record identified by 'nameID'
token at https://crates.io/api/v1/trusted_publishing/tokens
Token: "#d0d0d0", Keyword: "#49483e"
"privateKey": "string?", "credentials": "array?"
def sign(private_key: Ed25519PrivateKey, key: ed25519.Ed25519PublicKey)
super().__init__(credentials, **_extra_kwargs)
if(apiKey===void 0||data.SecretAccessKey===void 0)throw Error2
new Client({apiKey:apiKey??null,authToken:identityTokenFile?a2:b2})
var secretOrKey=secretOrKey??opts.publicKey;let token=pendingAnsi+segment2
return token.expiration!==void 0&&token.expiration2
let credentials=command.noRefresh?new A1:new B2
Vaults2.Credentials=Credentials,Vaults2
"accesskeys": {"pass": "el valor de autocomplete es correcto"}
"has-alt": {"pass": "要素にalt属性が指定されています"}
const SIDEBAR_WIDTH_STORAGE_KEY = 'pi-share:v1:sidebar-width'
log, err := s.getSessionLogBySessionID(sessionID)
s.handleUploadPackV2LSRefs(w, req, body)
Invalid response from STS.assumeRoleWithWebIdentity call with role2
gl_ModelViewProjectionMatrixInverseTranspose
-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----
keys begin with -----BEGIN RSA PRIVATE KEY----- and end with -----END RSA PRIVATE KEY-----, as always
if strings.Contains(s, "-----BEGIN PRIVATE KEY-----") { return errPrivateKeyNotAllowedHere2 }
https://hooks.slack.com/services/TOKEN_A/TOKEN_B/TOKEN_C
sk_live_your_key_goes_here_please fw_some_function_name_with_2_parts
secret_manager_access_token_was_not_found_in_2_requests
"session_id": "2026-01-21-0cf3db51-1c73-43bb-8d05-dc02739514a5", session_id=28c304f6-3c5f-4539-af1d-07ae450e639d
Restart the editor. Pass = `entire`
| KeePass | `keyring` crate |
2. **mainPass** (lines 353-354): `MasterRenderSystem`
wantType: "token", wantPass: "my-bearer"
util._reprcompare, util._assertion_pass = saved_assert_hooks
{"cmd":"pwd","workdir":"/repo"}
openssl enc -aes-256-cbc -k mykeyfile
password: "Passwort", forgotPassword: "forgot-password-link"
const password = "user-password-field"; passwordLabel = "loginForm"
DB_PASSWORD=db_password_from_vault PASSWORD=PASSWORD_HERE
"password": "bcrypt-hashed", "passwd": "required", "pwd": "optional"
<password>string</password>
--password=required --password string --password PROMPT
password=hashedPassword, passwd=user_password
token: end-to-end-encrypted, password: read-only-by-default
Which password hashing algorithm do we use? bcrypt
Is the token expired? See RFC6749 for this
What is the primary key? created_at2
key: AAAAC3NzaC1lZDI1NTE5AAAAIBbbbbbbbbbbbbbbbbbbbbbbb
"key": "users/2024/reports/AbCdEfGh12345678IjKlMnOp.parquet"
x = a**b + "token" + "_limit2"
unzip -Z1 a.zip; gzip -9 b; zip -r out2.zip src2
sqlplus /nolog @setup2.sql
mc alias list local2
net use z: \\\\host\\share2
log in with your account / password
""".strip().splitlines()

LINES = [line.replace("\\n", "\n") for line in r"""
"splitnport",\n                     "splitpasswd", "splitport2",
Bad key, though the certificate is\nOK\n-----END RSA PRIVATE KEY-----
curl https://a.example\ncurl -u "$USER:$PASS" https://b.example
redis-cli ping\nredis-cli -h localhost -p 6379 info
docker login -u bob r1\ndocker run -p 8080:80 nginx
mysql -h a db < x\nmysql -u root -p main
@@ -1,2 +1,3 @@\n-token = get_token()\n+token = await get_token()\n+password = args.password
+- name: DB_PASSWORD\n+  valueFrom:\n+    secretKeyRef: {name: db, key: password}
- name: API_KEY\n- name: API_KEY2
+api_keys = [\n+  os.environ["A"],\n+  settings.key2,\n+]
docker run \\n-p 8080:80 \\n-e TOKEN
token: |\n  ${{ secrets.API_TOKEN }}
token: |\n  Paste the token of your account here
password: >-\n  The password of user2 for the console
kind: Secret\nmetadata:\n  name: db-credentials2\n  namespace: team-12
kind: Secret\ndata:\n  password: {{ .Values.password | b64enc }}
kind: ConfigMap\ndata:\n  mode: YWJjZGVmZ2hpamts
kind: Secret\ntype: Opaque\n---\nkind: ConfigMap\ndata:\n  mode: YWJjZGVmZ2hpamts
def login(\n    email,\n    password,\n    retries2,\n):
    "exp", "password",\n    "expm16", "import16bits",
    user_id, password\n    client_id2, scope_16
| name | password |\n|---|---|\n| required | yes |\n| length | 8..64 |
| token | meaning |\n|---|---|\n| IDENT2 | a name |\n| `STRING16` | a text |
| test | pass | fail |\n|---|---|---|\n| api | 12 | 3 |
The email, password and name are checked\nfirst, user2admin and last
email,password\nbob@x.example,$PASSWORD
INSERT INTO users (name, password) VALUES (?, ?)
INSERT INTO users (name, password) VALUES ($1, $2), (:name, :password2)
INSERT INTO usage (token_count, name) VALUES (4212, 'user2admin')
update(users).values(password=hashed, name="user2admin")
login("bob", "dashboard")
new mysqli($host, $user, $password, $database2)
DriverManager.getConnection(url2, user, password)
new PDO($dsn, $user, $pass)
PDO("sqlite:/tmp/test2.db")
key = []byte("user:12:profile")
var key = []byte("hello-world-2")
key = b"session_id2"
parser.add_argument("--password", default=None, help="asked for when missing2")
parser.add_argument("--token", default=os.environ.get("API_TOKEN2"))
public string ApiKey { get; set; } = "";
public string Token { get; set; } = string.Empty;
let secret: &[u8] = &buffer[4..20];
config.password = %q()
Login: see / docs2
login: /api/v2/login
log in with password reset2
sign in using password authentication2
read -r PW <<< "$SECRET"
openssl enc -aes-256-cbc -k "$KEY" -in a
openssl req -newkey rsa:2048 -keyout key2.pem
hmac = hmac.new(key, message)
hmac: sha256
psk=$WIFI_PSK
key_mgmt=WPA-PSK
the secret access key\nis kept in the vault
echo "$PW" | sudo -S ls
--from-literal=replicas=3
127.0.0.1:5432:5432
machine a.example login bob password $PASSWORD
machine learning for the login page and password reset2
<property name="secretKey">\n  <value>${secret.key2}</value>
auth = ("basic", "digest")
""".strip().splitlines()]  # fmt: skip


def identifiers(rng: random.Random) -> Iterator[str]:
    """Hashes, ids and encoded data in the places where they are usually seen."""
    sha1, sha256 = pick(rng, HEX, 40), pick(rng, HEX, 64)
    yield f"commit {sha1}\nAuthor: Jane <jane@example.com>"
    yield f"* {sha1[:7]} fix token refresh"
    yield f"HEAD is now at {sha1[:9]} add secret rotation"
    yield f"  - uses: actions/checkout@{sha1} # v4.1.1"
    yield f"{sha256}  dist/app-1.2.0.tar.gz"
    yield f"FROM python@sha256:{sha256}"
    yield f"    --hash=sha256:{sha256} \\"
    yield f'checksum = "{sha256}"'
    yield f'"integrity": "sha512-{b64(rng, 64)}"'
    yield f"  resolution: {{integrity: sha512-{b64(rng, 64)}}}"
    yield f"golang.org/x/net v0.24.0 h1:{b64(rng, 32)}"
    yield f"golang.org/x/net v0.24.0/go.mod h1:{b64(rng, 32)}"
    yield f'<script integrity="sha384-{b64(rng, 48)}" crossorigin>'
    yield f"data:image/png;base64,{b64(rng, 300)}"
    yield f"image: {b64(rng, 60)}+AKIAQ3EGRJ7XK2LMNOP4/{b64(rng, 60)}"
    yield f"session id: {uuid.UUID(int=rng.getrandbits(128))}"
    yield f'"sessionId": "{uuid.UUID(int=rng.getrandbits(128))}"'
    yield f'"tool_use_id": "toolu_01{pick(rng, ALNUM, 22)}"'
    yield f'"id": "msg_01{pick(rng, ALNUM, 22)}", "call_id": "call_{pick(rng, ALNUM, 24)}"'
    yield f'"request_id": "req_011{pick(rng, ALNUM, 21)}"'
    yield f"/home/dev/.cache/pip/{sha1[:2]}/{sha1}/token2.json"
    yield f"node_modules/.pnpm/keyv@4.5.4_{pick(rng, LOWER, 26)}/node_modules"
    yield f'etag: W/"{b64url(rng, 16)}"'
    yield f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64(rng, 32)[:43]} me@example.com"
    yield f"public key: ssh-rsa AAAAB3NzaC1yc2E{b64(rng, 200)}"
    yield f"SHA256:{b64(rng, 32)[:43]} fingerprint of the host key"
    yield f"certificate-authority-data: {b64(rng, 200)}"
    yield f"client-certificate-data: {b64(rng, 200)}"
    yield f"bundle.{pick(rng, HEX, 8)}.min.js:1:{pick(rng, '123456789', 5)}"
    yield "!function(e,t){var n=e.token,r=t.key;return n?r(n):e.pass=t.p2}(window,{key:function(a){return a+1}});"
    yield f"ses_{pick(rng, ALNUM, 26)} prt_{pick(rng, ALNUM, 26)}"
    yield f"container {sha256[:12]} started from image sha256:{sha256}"
    yield f"cache key: node-{pick(rng, HEX, 64)}"
    yield f'"parentUuid":"{uuid.UUID(int=rng.getrandbits(128))}","isSidechain":false'
    yield f'"signature":"{b64(rng, 300)}"'
    yield f"digest: {hashlib.md5(rng.randbytes(8)).hexdigest()}"
    yield f"X-Request-Id: {pick(rng, HEX, 32)}"
    yield f"trace_id={pick(rng, HEX, 32)} span_id={pick(rng, HEX, 16)}"
    yield f'"encrypted_content":"gAAAAAB{b64url(rng, 120)}"'
    yield f"index {sha1[:7]}..{sha256[:7]} 100644"
    yield f"yarn@npm:4.1.0 checksum: 10c0/{pick(rng, HEX, 128)}"
    yield f"org_{pick(rng, ALNUM, 40)} proj_{pick(rng, ALNUM, 40)} user_2{pick(rng, ALNUM, 26)} btgt_01{pick(rng, ALNUM, 44)}"
    yield f"resp_{pick(rng, HEX, 50)} fc_{pick(rng, HEX, 50)} rs_{pick(rng, HEX, 50)} thread_{pick(rng, ALNUM, 24)}"
    yield f"acme/app:prod-{sha1} build-staging-{sha256} cache_{pick(rng, HEX, 32)}"
    yield f'class="styles_token__{pick(rng, ALNUM, 5)} css-{pick(rng, LOWER, 6)}" <link href="/assets/index-{pick(rng, ALNUM, 8)}.css">'
    yield f"pk_live_{pick(rng, ALNUM, 24)} is publishable, acct_{pick(rng, ALNUM, 16)} price_{pick(rng, ALNUM, 24)}"
    yield f'wasm = "{b64(rng, 900)}"'
    yield f"-----BEGIN CERTIFICATE-----\n{b64(rng, 48)}\n{b64(rng, 48)}\n-----END CERTIFICATE-----"
    yield f"-----BEGIN PUBLIC KEY-----\n{b64(rng, 48)}\n-----END PUBLIC KEY-----"
    yield f'{{"kty": "RSA", "n": "{b64url(rng, 256)}", "e": "AQAB"}}'
    yield f"data: {base64.b64encode(b'-----BEGIN CERTIFICATE-----' + rng.randbytes(90)).decode()}"
    yield f"nix: /nix/store/{pick(rng, LOWER, 32)}-python3-3.11 sha256-{b64(rng, 32)}"
    yield f'"key": "{base64.b32encode(rng.randbytes(10)).decode()}", "value": 3'


def texts(seed: int = 77) -> list[str]:
    """All look-alikes, each in each carrier."""
    rng = random.Random(seed)
    plain = [place.format(p=p) for place in PLACES for p in PLACEHOLDERS] + CODE + LINES
    for _ in range(4):
        plain += identifiers(rng)
    return [wrap(text) for text in plain for wrap in CARRIERS.values()]
