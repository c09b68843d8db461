"""Tokens that are known by their shape alone: what issuers put before them, and how long they are.

The table is data. A token of an issuer that is not in it is known by what such tokens have in
common: a word for what it is (`live`, `pat`, `secret`), and a long random end.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from typing import NamedTuple

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.patterns import SecretSpan, compile_once
from tasuki.draft.redact.private_keys import extend_key

_ALPHABETS = {
    "d": "0-9", "h": "0-9a-f", "H": "0-9a-fA-F", "u": "A-Z0-9", "l": "a-z0-9", "a": "A-Za-z0-9",
    "w": "A-Za-z0-9_-", "x": "A-Za-z0-9_.=-", "b": "A-Za-z0-9+/=_-",
}  # fmt: skip
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_TABLE = """
aws-access-key     A[KS]IA<u16>$ A[BC][IC]A<u16>$
aws-key            IQoJb3JpZ2lu<b80+> F[wQ]oGZXIvYXdz<b80+> ABSK<b90+> bedrock-api-key-<b30+> amzn[.]mws[.]<U> amzn1[.]oa2-cs[.]v1[.]<h60+>
github-token       gh[pousr]_<a20+>(?:_<x20+>)? github_pat_<w40+>
anthropic-key      sk-ant-<w20+>
openai-key         sk-(?:proj|svcacct|service|admin|None)-<w20+> ?sk-<a20+> sess-<a40>$
api-key?           sk-[a-z0-9]{1,10}-<w20+>
slack-token        xox[a-z](?:[.]xox[a-z])?-<b10+> xapp-<d1>-<w20+> xwfp-<w30+>
google-key         AIza<w35> ya29[.]<x20+> GOCSPX-<w20+> AQ[.]Ab<w30+> (?<=1//)0<w30+> GOOG<u20+>
stripe-key         [sr]k_(?:live|test|prod)_<b10+> whsec_<b20+> pi_<a16+>_secret_<a16+>
npm-token          npm_<a36+>
gitlab-token       gl(?:pat|dt|rt|rtr|cbt|ptt|soat|imt|agent|ffct|ft|oas|wt)-<x20+> GR1348941<w20+>
huggingface-token  hf_<a30+> api_org_<a30+>
pypi-token         pypi-<w40+>
sendgrid-key       SG[.]<w16+>[.]<w32+>
twilio-key         SK<H32>$
digitalocean-token do[opr]_v1_<h60+> DO00<u16>$
discord-token      [MNO]<w22+>[.]<w6>[.]<w27+>
telegram-token     (?<=<d1>:)AA<w33>$
jwt                ZXlK<b60+> eyJ(?:2MiI6|hcGlf)<b40+> eyJ<w8+>[.]<w8+>(?:[.]<w1+>){0,3} eyJ<w16+>[.][.]<w8+>[.]<w16+>[.]<w8+> ?eyJrIjoi<b40+>
age-key            AGE-SECRET-KEY-1<u40+> AGE-PLUGIN-<u1+>-1<u40+>
shopify-token      shp[a-z]{2,3}_<H32+>
databricks-token   dapi<h32>(?:-<d1>)? dkea<h32> dose<h32>
vault-token        hv[sbr][.]<w24+> ?s[.](?=(?:[A-Za-z]*[0-9]){2})<a24>$
atlassian-token    AT(?:ATT|CTT|BB|OA)<x24+> ATTA<a60+> BBDC-<b40+>
docker-token       dckr_[po]at_<w20+> SWMTKN-1-<l40+>-<l20+> SWMKEY-1-<b40+>
grafana-token      glsa_<w40+> glc_<b20+>
tailscale-key      tskey-[a-z]+-<w20+>
sonar-token        sq[pau]_<h40> sqco_<a50+>
sentry-token       sntry[a-z]_<b40+>
supabase-key       sbp_<w36+> sb_secret_<w20+>
onepassword-token  ops_eyJ<b40+> A3-<u6>-<u5+>(?:-<u5+>){3,4}
doppler-token      dp[.](?:pt|st|ct|sa|scim|audit|said)[.]<x30+>
twitter-token      *AA{19,21}(?:(?!AAA)[A-Za-z0-9%]){70,110}$
private-key        MII[A-Za-z0-9+/]{2,8}IBA(?:AKC|DANBgkqhkiG9w0BAQEFAAS)<b20+> b3BlbnNzaC1rZXktdjEA<b20+>
private-key        M[CIH][A-Za-z0-9+/]{1,10}(?:QEEI|AwBQYDK2V|BBD[A-D]|ByqGSM49)<b20+> RW(?:RTY0Iy|QAAEIy|RCSw)<b40+>
private-key        nsec1<l58> [xyzt]prv<a100+> *LS0tLS1CRUdJTi<b20+>
service-token      pk_<d6+>_<a32>$ pk_(?:prod|test)_<u28>$ 0[.]<U>[.]<a30>(?::<b20+>)? live_<h32>$ cal_(?:live_|test_)?<h32>$ SCW<u17>$
service-token?     a[ks]-<a22>$ ak_<a20+>$ [123]<a26>_<a20+>$ A21AA<w60+> ddapp_<a30+> ETMsDg<b40+> cflt<b56+> (?<=SSWS.)00<w40> at_<a10>_<a40+>
service-token?     fk-<w30+> rca_<h40+> ste-<a40+> z_<w80+> lin_(?:api|oauth)_<a20+> ntn_<a20+> secret_<a20+> gsk_<a20+> xai-<w20+> pplx-<a20+> r8_<w20+>
service-token?     rubygems_<l20+> cio<a32>$ fig[a-z]{1,2}_<w20+> nvapi-<w20+> tvly-<w20+> ph[xs]_<w20+> tfp_<w20+>
service-token?     sq0[a-z]{3}-<w20+> NR(?:AK|II|IQ|AA|RA|SP)-<w20+> PMA[KT]-<w20+> pul-<l20+> EAAA<w20+> EAA<a80+>
service-token?     pscale_(?:tkn|pw|oauth)_<x20+> lsv2_(?:pt|sk)_<w20+> ls__<a20+> xkeysib-<w20+> xsmtpsib-<w20+> re_<a6+>_<a16+>
service-token?     re_<a24+> dt0[a-z]<d2>[.]<a20+>[.]<a20+> f[mo][12][ar]?_<b20+> jina_<a20+> e2b_<l20+> sk_e2b_<l20+>
service-token?     rnd_<a20+> LTAI<a16+> STS[.]<a16+> CFPAT-<w20+> napi_<a20+> nf[a-z]_<a20+> ctx7sk-<x20+> fc-<h32>$
service-token?     cf(?:ut|at|k)_<a20+> v1[.]0-<h20+>-<h100+> sl[.](?:u[.])?<w60+> key-<h32>$ vc[aciprk]_<w20+>
service-token?     vercel_(?:blob_rw_)?<w20+> pcsk_<a4+>_<w30+> csk-<l40+> tgp_v<d1>_<w20+> pat<a14>[.]<h40+>
service-token?     pk_<l34>$ pk_<a6>_<h34>$ pk[.]<h32>$ sk[.]<x60+> bk[a-z]{2,3}_<w36+> xa[ap]t-<U> dtn_<h40+> signkey-[a-z]+-<h32+> sk_<h40+>$
service-token?     sk_[a-z0-9]{2,7}_<w20+> sk_<a28>$ sk_<a40+>$ sk_<U> shippo_(?:live|test)_<H20+> bb_[a-z]{2,4}_<w20+>
service-token?     tr_(?:prod|dev|stg|preview|pat|oat)_<w16+> pn[ub]_<a30+> fw_<a20+> fpk_<w20+> llx-<w30+> apify_api_<w24+>
service-token?     wandb_v<d1>_<w40+> pylf_v<d1>_[a-z]+_<w30+> AIK_[A-Z]+_<a20+> aio_<a24+> p8e-<l24+> apk_<b80+> cog_<l40+>
service-token?     key_<h64>$ crsr_<h40+> db-<a29>$ pa-<w43>$ al-<w43>$ co[-_]<a40+> dd[pow]_<a36>$ depot_[a-z]+_<h30+>
service-token?     dvc_[a-z]+_<w12+> dnkey-<x20+>-<x40+> duffel_[a-z]+_<x30+> EZ[AT]K<a50+> essu_<b40+> EXO<a24+>$
service-token?     FLWSECK(?:_TEST)?-<w12+> fio-u-<x40+> flb_[a-z]+_<a16+> shltm_<w30+> CCIP(?:AT|RJ)_<a20+>_<l40+>
service-token?     CCDB1_<a20+>_<a30+> CLOJARS_<a50+> cnvca<w40+>$ csa_<h30><a6>$ AKCp<a60+> cmVmd<a59>$ cmVmdGtuOj<a40+> APA91b<w100+> HRKU-<w36+>
service-token?     hc[a-z]{1,2}[im]k_<l20+> ico-<a32>$ ion_<a40+> [su]-s4t2[a-z]{2}-<h60+> lip_<w16+> (?:live|test)_<h35>$
service-token?     (?:live|sandbox)_<x40>$ mlsn[.]<a24+> md-<a22>$ mdb_sa_sk_<w30+> mercury_[a-z]+_[a-z]+_<w30+>
service-token?     mergify_[a-z_]+_<w30+> Mid-server-<w16+> mzp_<h40+> NF-<a32>$ odt_<a32+> oy2<l43>$ os_v2_[a-z]+_<l60+>
service-token?     api_(?:live|sandbox)(?:_[a-z]{2})?[.]<w20+> API-<u26>$ API_KEY<u32>$ sha256~<w43>$ pdl_[a-z]+_apikey_<w30+>
service-token?     persona_(?:production|sandbox)_<w20+> pina_<w20+> pit-<U> access-[a-z]+-<U> polar_[a-z]+_<w20+>
service-token?     prf_(?:cli_)?<w20+> apikey_<h64>$ ramp_(?:sec|tok)_<a30+> rdme_<l60+> rpa_<a30+> rootly_<h60+>
service-token?     rzp_(?:live|test)_<a14>$ salad_cloud_<a1+>_<a16+> samsara_api_<a20+> sgp_(?:<H16>_|local_)?<a40+> slk_<h60+>
service-token?     sgamp_[a-z]+_<w30+> sm_[aps]at_<a16>$ snyk_[usr]at[.]<x20+> tk-us-<w40+> tss_<w20+> ucat_<a20+>
service-token?     unkey_<a20+> VF[.](?:[A-Z]{2}[.])?<H20+>[.]<a16> vtwn_<w20+> waka_<w30+> wrka[a-z]{0,2}-eyJ<x60+>
service-token?     zpka_<l20+>_<h8> pat-[a-z]{2}<d1>-<U> [ps]at[.]<w20+>[.]<a20+>[.]<a16+> (?:api|sdk)-<U> hawk[.]<w20>[.]<w20>
service-token?     fal_<w30+> na1[.]<b80+> eu1[.]<b80+> PRD-<h8>-<h4>-<h4>-<h4>-<h4+> gcntfy-<w70+> hsk-<w30+> IGQ<w80+> THAA<w80+> KEY0<u20+>_<w16+> kit_<h30+> luma-<w36+> m0-<a36+>
service-token?     QN_<h32>$ retool_<a24+> rh-api-<U> secret-(?:live|test)-<x30+> sk-lf-<U> st[.]<h20+>[.]<h20+>[.]<h20+>
service-token?     (?:sc|ext|scauth|authress)_<l5+>[.]<l4+>[.]acc[-_]<x40+> sec-c-<b40+> syt_<w20+>_<w16+> t1[.]<x80+> thog-secret-<h32> v[1-4][.](?:local|public)[.]<w40+>
service-token?     xau_<w20+> y0_<w50+> AQVN<w35+> 1000[.]<h32>[.]<h32> 3MVG9<x70+> 5AEP861<x70+> 4b1d<a38>$ BBFF-<a30>$
service-token?     BSA<w24+>$ ak_live_<a20+> argos_<h40> chpt_<h12+> dbt[cu]_<b30+> web_<h64>$ web_<l32>$ exa_<w24+> (?<=!)A[A-Z]<x78+>
"""
"""Kind, and shapes. `<a20+>` is 20 or more characters of an alphabet, `<U>` a UUID, and `$` says that
no letter or digit follows. With `?` a value must also be random, with `*` it may repeat a character.
"""

_CHARACTERS = "".join(chr(i) for i in range(45, 127) if chr(i).isalnum() or chr(i) in "-._~")

_INSIDE = (
    r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}|[A-Za-z0-9]{52}JQQJ9[9D][A-Za-z0-9]{20,}"
    r"|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|[0-9a-z]{28,36}(?:FFFFNRAL|-NRMA)|[0-9a-f]{32}-us\d{1,2}"
    r"|[0-9a-z]{10}msh[0-9a-z]{15}p1[0-9a-z]{6}jsn[0-9a-z]{12}|(?<![0-9a-f-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])"
    r"|(?<![0-9a-f-])[0-9a-f]{32}\.[A-Za-z0-9]{16}(?:[A-Za-z0-9_-]{8})?(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
)
"""Tokens with a mark in their middle: Azure, Terraform, MaxMind, New Relic, Mailchimp, RapidAPI, Mailgun, Zhipu."""
_INSIDE_MARK = r"\dQ~|\.atlasv1\.|JQQJ9|AZDO|_mmk|NRAL|-NRMA|[0-9a-f]{32}[-.](?:us\d|[0-9a-f]{8}-|[A-Za-z0-9]{16})|jsn"
_AFTER_MARK = (
    r"(?<=AstraCS:)[A-Za-z0-9:]{20,}|(?<=[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:)[0-9a-f]{32}(?![0-9a-z])"
    r"|(?<=(?<![0-9a-f])[0-9a-f]{24}:)[0-9a-f]{64}(?![0-9a-z])|(?<=configcat-sdk-1/)[A-Za-z0-9_-]{22}/[A-Za-z0-9_-]{22}"
    r"|(?<=\d{15}[|])[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])|(?<=[A-Za-z0-9+/]{22}==:)[A-Za-z0-9]{32}(?![0-9A-Za-z])|(?<=/\d{16}:)[0-9a-f]{32}|(?<=-\d{3}[|])[A-Za-z0-9+/=]{60,}|(?<=[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{6}:)[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])|(?<=secret-token:)[A-Za-z0-9_.~-]{20,}"
)
"""Tokens with a character before them that is none of a token."""


class TokenShape(NamedTuple):
    """One shape of the table: kind, pattern, whether it must be random, and may repeat a character."""

    kind: str
    pattern: str
    needs_random: bool
    may_repeat: bool


@cache
def _load_shapes() -> dict[str, tuple[str, tuple[TokenShape, ...]]]:
    """Return for each pair of first characters one pattern of all its shapes, and the shapes."""
    by_head: dict[str, list[TokenShape]] = {}
    for line in _TABLE.strip().splitlines():
        kind, *patterns = line.split()
        for written in patterns:
            pattern = compile_once(r"<(\w)(\d*)(\+?)>").sub(
                lambda m: _UUID if m[1] == "U" else f"[{_ALPHABETS[m[1]]}]{{{m[2]}{m[3] and ','}}}",
                written.lstrip("?*"),
            )
            shape = TokenShape(
                kind.rstrip("?"), pattern.replace("$", "(?![A-Za-z0-9])"),
                "?" in kind or written[0] == "?", written[0] == "*",
            )  # fmt: skip
            for head in _list_heads(pattern):
                by_head.setdefault(head, []).append(shape)
    return {
        head: ("|".join(shape.pattern for shape in found), tuple(found))
        for head, found in by_head.items()
    }


def _list_heads(pattern: str) -> list[str]:
    """Return the pairs of characters that a pattern may begin with."""
    pattern = compile_once(r"^\(\?<=[^)]*\)").sub("", pattern)
    if pattern.startswith("(?:"):
        return [word[:2] for word in pattern[3 : pattern.index(")")].split("|")]
    atoms = compile_once(r"(\[[^\]]*\]|.)(\[[^\]]*\]|.)").match(pattern)
    return list(map("".join, product(*map(_list_members, atoms.groups())))) if atoms else []


def _list_members(atom: str) -> list[str]:
    return [atom] if len(atom) == 1 else compile_once(atom).findall(_CHARACTERS)


# ---- finding -------------------------------------------------------------------------------------------------------

_RUN = 20
_LONGEST = 4096  # characters of a token; longer ones are redacted up to here, which bounds the work on hostile text
_MOST_PARTS = 200  # separators in one run; no person or program writes text with more
_NEEDLE = b"a" * _RUN
_RUN_CHARS = bytes(97 if chr(i) in _CHARACTERS else 32 for i in range(256))
_CODED_CHARS = bytes(97 if chr(i) in _CHARACTERS + "+/" else 32 for i in range(256))


def find_tokens(text: str, narrow: bytes) -> Iterator[SecretSpan]:
    """Yield tokens of a known shape; `narrow` is the text with one byte for each character.

    Only runs of 20 or more token characters are checked, which `bytes.find` skips to, and of
    those only what has a digit or as many letters in a row.
    """
    yield from _find_coded(text, narrow)
    mask, worth = narrow.translate(_RUN_CHARS), compile_once(r"\d|[A-Za-z]{20}").search
    plain = compile_once(rf"{_UUID}|[0-9a-f]{{40}}").fullmatch
    position = mask.find(_NEEDLE)
    while position >= 0:
        end = mask.find(b" ", position + _RUN)
        end = len(mask) if end < 0 else end
        if end - position in (36, 40) and plain(text, position, end):
            pass
        elif worth(text, position, end) and not _is_in_base64(text, position):
            yield from _find_in_run(text, position, end)
        position = mask.find(_NEEDLE, end)


def _is_in_base64(text: str, position: int) -> bool:
    """Return whether a `+` or `/` of base64 is before the position, so that nothing begins there."""
    before = compile_once(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/]{24}")
    is_sign = text[position - 1 : position] in ("+", "/")
    return is_sign and before.match(text, max(0, position - 24), position) is not None


def _find_coded(text: str, narrow: bytes) -> Iterator[SecretSpan]:
    """Yield tokens in base64, whose `+` and `/` end a run of other token characters."""
    mask, by_head = narrow.translate(_CODED_CHARS), _load_shapes()
    position = mask.find(_NEEDLE * 2)
    while position >= 0:
        for start in _list_starts(text, position):
            known = by_head.get(text[start : start + 2])
            if known and (token := _match_shapes(text, start, *known)):
                yield token
        end = mask.find(b" ", position)
        position = mask.find(_NEEDLE * 2, end) if end >= 0 else -1


def _find_in_run(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    """Yield tokens at the start of the run, after each separator in it, and with a mark inside."""
    by_head = _load_shapes()
    separators = compile_once(r"[-_.~]+").finditer(text, start, end)
    first = _list_starts(text, start)
    last = 0
    for position in (*first, *(found.end() for found in islice(separators, _MOST_PARTS))):
        known = by_head.get(text[position : position + 2]) if position >= last else None
        token = _match_shapes(text, position, *known) if known else None
        if token and position > first[-1] and shapes.is_encoded(text[first[-1] : position]):
            break
        if not token and position == first[-1]:
            token = _match_common(text, position, end)
        if token:
            last = token.end
            if token.kind == "private-key":
                token = token._replace(end=extend_key(text, token.end))
            yield token
            if token.kind == "aws-access-key":
                yield from _find_aws_secrets(text, token.start, token.end)
    if end - start >= 32 and compile_once(_INSIDE_MARK).search(text, start, end):
        begin = first[-1]
        for found in compile_once(_INSIDE).finditer(text[begin:end]):
            if not shapes.is_dummy(found.group()) and shapes.is_random(found.group(), often=10):
                yield SecretSpan(begin + found.start(), begin + found.end(), "service-token")
    if text[start - 1 : start] in ("/", ":", "|"):
        marked = compile_once(_AFTER_MARK).match(text, start, min(len(text), start + _LONGEST))
        if marked and shapes.is_random(marked.group(), often=10):
            start -= 25 if text.endswith("==:", 0, start) else 0  # Tableau's first half
            yield SecretSpan(start, marked.end(), "service-token")


def _match_shapes(
    text: str, start: int, pattern: str, known: tuple[TokenShape, ...]
) -> SecretSpan | None:
    """Return the token that starts here. One pattern of all shapes decides, since that fails fastest."""
    end = min(len(text), start + _LONGEST)
    if not compile_once(pattern).match(text, start, end):
        return None
    for shape in known:
        found = compile_once(shape.pattern).match(text, start, end)
        if found and _is_token(found.group(), shape):
            if shape.kind == "telegram-token":  # the number of the bot belongs to it
                before = text[max(0, start - 20) : start]
                start -= len(before) - len(before.rstrip("0123456789:"))
            return SecretSpan(start, found.end(), shape.kind)
    return None


def _is_token(value: str, shape: TokenShape) -> bool:
    """Return whether a value of an issuer's shape is a token, not a placeholder or a name."""
    if value.startswith("LS0tLS1CRUdJTi"):  # BEGIN, in base64
        try:
            if b"PRIVATE KEY" not in base64.b64decode(value[:88]):
                return False
        except (binascii.Error, ValueError):
            return False
    if not shape.may_repeat and shapes.is_dummy(value):
        return False
    value = value[:256]
    has_digit = any(map(str.isdigit, value))
    is_long = has_digit or compile_once(r"[A-Za-z]{30}|[A-Z]{20}").search(value)
    if not shape.needs_random and is_long:
        return True
    if not has_digit:  # one token of twenty letters and digits in thirty
        runs = compile_once(r"[A-Za-z]{16,}").findall(value)
        return any(shapes.is_random(run, often=8) for run in runs)
    return shapes.is_random(value, often=10) or compile_once(_ONE_CASE).search(value) is not None


_ONE_CASE = r"(?=[a-z]*\d)[a-z0-9]{20}|(?=[A-Z]*\d)[A-Z0-9]{20}"


_KEY = r"(?:api|app|access|refresh|secret|private|auth)?[-_]?(?:key|token|secret|pat|oat|uat|sk|rk)"
_COMMON = (
    r"(?:[a-z][a-z0-9]{0,15}[-_]){0,3}?(?:(?:(?P<strong>"
    + _KEY
    + r")|api|live|test|prod|production|dev|staging|stg|sandbox|sbx|preview)[-_]"
    r"(?:v\d[-_]|[a-z]{2}[-_])?(?P<v>[A-Za-z0-9]{20,})[A-Za-z0-9_-]*|"
    + _KEY
    + r"[-_](?P<mixed>[A-Za-z0-9_-]{24,}))"
    r"|[a-z][a-z0-9]{1,11}(?:_[a-z0-9]{1,8}){0,2}_(?P<long>[A-Za-z0-9]{36,})(?![A-Za-z0-9_~-]|\.[A-Za-z0-9])"
)
_IDENTIFIER = r"(?:toolu|srvtoolu|msg|req|call|ses|sess|prt|resp|fc|rs|ws|chatcmpl|org|proj|project|user|team|acct|run|step|thread|asst|file|batch|evt|conv|item|job|cus|sub|price|dpl|cs|pk|phc|pub|public|publishable|sha\d*|md5|hash|digest)[-_]"
"""What identifiers and public keys begin with."""


def _match_common(text: str, start: int, end: int) -> SecretSpan | None:
    """Return the token of an unknown issuer that starts here: `acme_live_…`, `acme-pat-…`, `acme_…` with a long end.

    Hashes are none, and no UUID, unless the name says that it is a key.
    """
    if compile_once(_IDENTIFIER).match(text, start, end):
        return None
    found = compile_once(_COMMON).match(text, start, min(end, start + _LONGEST))
    if not found:
        return None
    value = found["v"] or found["mixed"] or found["long"]
    often = 5 if found["mixed"] or len(value) < 30 else 10
    if sum(map(str.isdigit, value)) < 2 or shapes.is_dummy(found.group()):
        return None
    if not shapes.is_random(value, often):
        return None
    good = found["strong"] or found["mixed"] or not compile_once(shapes.HASH).match(value)
    if found["long"] and (value.islower() or value.isupper() or value.startswith("01")):
        good = False
    return SecretSpan(start, found.end(), "service-token") if good else None


_FORTY = r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
_NEAR = 300  # characters between the two halves of an AWS key


def _find_aws_secrets(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    """Yield the secret half of an AWS key near its other half. It has no shape but its length; the other half has one."""
    first = max(0, start - _NEAR)
    lines = compile_once(r"\\[nrt]|%0[aA]")  # An escaped line break is no part of a value.
    near = lines.sub(lambda found: " " * len(found.group()), text[first : end + _NEAR])
    for found in compile_once(_FORTY).finditer(near):
        value = found.group()
        if shapes.is_random(value, often=10) and not compile_once(shapes.HASH).match(value):
            position = first + found.start()
            yield SecretSpan(position, position + len(value), "aws-secret-key")


_ESCAPES = ("\\", "%", "[")
_ESCAPE = r"(?<=\\)[nrt]|(?<=\\)u[0-9a-fA-F]{4}|(?<=%)[0-9A-Fa-f]{2}|(?<=\[)\d{0,2}m"


def _list_starts(text: str, position: int) -> tuple[int, ...]:
    """Return where a run begins, and where it continues after an escape at its start.

    The escape is that of a newline, a percent escape or a terminal colour.
    """
    is_escaped = text[position - 1 : position] in _ESCAPES
    found = compile_once(_ESCAPE).match(text, position) if is_escaped else None
    return (position, found.end()) if found else (position,)
