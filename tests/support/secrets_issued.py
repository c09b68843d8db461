"""Made-up tokens of some hundred and ninety issuers, by what they document, and of issuers that do not exist.

The lengths are those that the issuers gave in 2025 and 2026; what is before the token's random part is public.
"""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Iterator

from secrets_generator import ALNUM, HEX, LOWER, UPPER, WORDS, Sample, carried, pick

_ALPHABETS = {
    "a": ALNUM, "h": HEX, "l": LOWER, "u": UPPER, "d": string.digits, "w": ALNUM + "_-", "b": ALNUM + "+/",
    "t": string.ascii_lowercase + "234567",
}  # fmt: skip

ISSUERS = """
vercel vcp_ a56 | vercel-integration vci_ a56 | vercel-gateway vck_ a56 | vercel-blob vercel_blob_rw_ a16 _ a30
pinecone pcsk_ a6 _ a63 | cerebras csk- l48 | together tgp_v1_ w43 | airtable pat a14 . h64 | clickup pk_ d8 _ u32
buildkite bkua_ h40 | buildkite-agent bkct_ w73 | axiom xaat- U | daytona dtn_ h64 | inngest signkey-prod- h64 | inngest-branch signkey-branch- h64
liveblocks sk_dev_ a60 | shippo shippo_live_ h40 | browserbase bb_live_ a27 | trigger tr_prod_ a20 | trigger-pat tr_pat_ l40
elevenlabs sk_ h48 | prefect pnu_ a36 | fireworks fw_ a24 | adafruit aio_ a28 | adobe p8e- l32 | aikido AIK_SECRET_ a64 | apify apify_api_ a36
artifactory AKCp a69 | artifactory-reference cmVmd a59 | astra AstraCS: a24 : h64 | atlassian-dc BBDC- b44 | bedrock ABSK b128 | brave BSA w27
canva cnvca w51 | circleci CCIPAT_ a22 _ h40 | clojars CLOJARS_ l60 | cloudflare cfut_ a40 h8 | cloudflare-ca v1.0- h24 - h146 | cloudsmith csa_ h30 a6
cockroach CCDB1_ a22 _ a40 | cohere co_ a48 | context7 ctx7sk- U | crates cio a32 | cursor key_ h64 | cursor-cli crsr_ h64 | databento db- a29
databricks dapi h32 | dbt dbtu_ a43 | defined dnkey- l26 - l52 | deno ddp_ a36 | depot depot_project_ h64 | devcycle dvc_server_ a24 | devin cog_ t52
duffel duffel_live_ w43 | dynatrace dt0c01. u24 . u64 | easypost EZAK a54 | elastic essu_ b80 | exoscale EXO a28 | figma figd_ w40 | figma-plan figp_ w44
firecrawl fc- h32 | flutterwave FLWSECK- h32 -X | fly fo1_ w43 | frameio fio-u- w64 | gcs GOOG1E u57 | gemini AQ.Ab8RN6 w44 | ghost-less mlsn. h64
gitlab-oauth gloas- h64 | gitlab-routable glpat- w27 .01. l9 | gocardless live_ w40 | google-refresh 1//0 w60 | harness pat. a22 . h24 . a20
heroku HRKU- U | heroku-new HRKU-AA w58 | honeycomb hcaik_01 l56 | hubspot pat-na1- U | infracost ico- a32 | intra42 s-s4t2ud- h64 | ionic ion_ a42
klaviyo pk_ h34 | langfuse sk-lf- U | launchdarkly sdk- U | launchdarkly-api api- U | lichess lip_ a20 | llama-cloud llx- a48 | lob live_ h35
logfire pylf_v1_us_ a44 | luma luma- U - U | mailchimp  h32 -us14 | mailersend mlsn. h64 | mailgun key- h32 | mailgun-new  h32 - h8 - h8
mapbox sk.eyJ a70 . a22 | materialize mzp_ h64 | maxmind  a6 _ a29 _mmk | mem0 m0- a40 | mercury mercury_production_rma_ a44 _yrucrem
mongodb mdb_sa_sk_ w40 | neon napi_ l64 | netlify nfp_ a40 | new-relic NRAK- u27 | new-relic-license  h32 FFFFNRAL | nostr nsec1 l58
npm-less oy2 l43 | nvidia nvapi- w64 | octopus API- u26 | onesignal os_v2_app_ t103 | onfido api_live. w60 | openai-admin sk-admin- w120
openshift sha256~ w43 | openrouter sk-or-v1- h64 | paddle pdl_live_apikey_ l26 _ a22 _ a3 | paseto v4.local. w90 | percy web_ h64
persona persona_production_ l36 | pinterest pina_ w100 | plaid access-production- U | planetscale pscale_tkn_ w43 | polar polar_oat_ a43
posthog phx_ a43 | postman PMAK- h24 - h34 | pulumi pul- h40 | ramp ramp_sec_ a48 | rapidapi  l10 msh l15 p1 l6 jsn l12 | readme rdme_ l70
redis-less unkey_ a22 | render rnd_ a28 | resend re_ a8 _ a24 | retool retool_ l26 | rootly rootly_ h64 | runpod rpa_ u40 l6 | samsara samsara_api_ a30
scalingo tk-us- w48 | segment sgp_ a64 | settlemint sm_pat_ a16 | shopify shpat_ h32 | slack-cookie xoxd- b100 | snyk snyk_uat. h8 . w50
sonarcloud sqco_ a59 | sourcegraph sgp_ h16 _ h40 | sourcegraph-cody slk_ h64 | square EAAA w60 | stytch secret-live- w40 | supabase sb_secret_ w31
swarm SWMTKN-1- l50 - l25 | tableau  b22 ==: a32 | telnyx KEY0 u31 _ w22 | thunderstore tss_ a41 | trello ATTA h72 | twitter AAAAAAAAAAAAAAAAAAAAA a80
typeform tfp_ a44 _ a14 | upcloud ucat_ u26 | val-town vtwn_ a27 | voiceflow VF.DM. h24 . a16 | voyage pa- w43 | wakatime waka_ U | wandb wandb_v1_ a77
workato wrka-eyJ w40 . w40 . w86 | xata xau_ a43 | xprv xprv a107 | yandex y0_ w55 | zhipu  h32 . a16 | zoho 1000. h32 . h32 | zuplo zpka_ l32 _ h8
modal ak- a22 | modal-secret as- a22 | aws-session IQoJb3JpZ2lu a200 | ngrok 2 a26 _ a22 | paypal A21AA w90 | datadog-app ddapp_ a34 | snowflake ETMsDgAAA b60
confluent cflt b60 | factory fk- w40 | boundary at_ a10 _ a60 | raycast rca_ h64 | steel ste- a80 | composio ak_ a20 | zep z_ w120 | cal cal_live_ h32 | scale live_ h32
courier pk_prod_ u28 | scaleway SCW u17 | asana 2/1203456789012345/1209876543210987: h32 | neptune eyJhcGlf a120 | convex prod:happy-animal-123| eyJ2MiI6 b90
""".strip()

UNKNOWN = """
live {n}_live_ a32 | test {n}_test_ a24 | prod {n}-prod- a40 | pat {n}_pat_ a36 | secret {n}_secret_ a32 | key {n}-key- a30 | sk {n}_sk_ a28
token {n}_token_ l40 | api {n}_api_ a40 | version {n}_v1_ a48 | long {n}_ a44 | staging {n}_staging_ a32 | sandbox sbx_sandbox_ a32 | refresh {n}_refresh_token_ w40
""".strip()

CONTEXTS = {
    "said": "I tried it with {s} and the server said 200.",
    "code": 'client = Acme("{s}")',
    "list": "- one\n- {s}\n",
    "log": "2026-05-01T10:00:00Z ERROR refused: {s} (status 401)",
    "arrow": "    12→{s}",
    "stop": "The job still uses {s}.",
}


def make_token(rng: random.Random, spec: str) -> tuple[str, str]:
    """A token by its spec, `PREFIX PART…`, and its public prefix."""
    prefix, *parts = spec.split(" ")
    made = prefix
    for part in parts:
        known = part[:1] in _ALPHABETS and part[1:].isdigit()
        made += "".join(rng.choices(_ALPHABETS[part[0]], k=int(part[1:]))) if known else str(uuid.UUID(int=rng.getrandbits(128))) if part == "U" else part  # fmt: skip
    return made, prefix


def list_issuers(table: str = ISSUERS) -> dict[str, str]:
    """The name of each issuer, and the spec of its tokens."""
    rows = table.replace("\n", " | ").split(" | ")
    return {name: spec for name, _, spec in (row.partition(" ") for row in rows)}


def issued(seed: int = 20260501) -> list[Sample]:
    """Tokens of every issuer in every context and carrier."""
    return carried(_samples(random.Random(seed), list_issuers()))


def unknown(seed: int = 20260502) -> list[Sample]:
    """Tokens of issuers that do not exist, in the same places."""
    rng = random.Random(seed)
    table = {f"{name}-{word}": spec.replace("{n}", word) for name, spec in list_issuers(UNKNOWN).items() for word in (*rng.sample(WORDS, 2), pick(rng, string.ascii_lowercase, 3))}  # fmt: skip
    return carried(_samples(rng, table))


def _samples(rng: random.Random, table: dict[str, str]) -> Iterator[Sample]:
    for name, spec in table.items():
        for context, template in CONTEXTS.items():
            value, public = make_token(rng, spec)
            yield Sample(name, context, template.format(s=value), value, public)
