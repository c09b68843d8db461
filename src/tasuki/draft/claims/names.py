"""Names in a sentence that the thread does not hold: commits, branches, files, identifiers."""

from collections.abc import Iterator

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.claims.lookup import fold_quote
from tasuki.draft.claims.sentences import Correction, Sentence
from tasuki.draft.repository.commits import is_same_hash
from tasuki.draft.text.entries import TextClaim, contains_verbatim
from tasuki.draft.text.polarity import list_words
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

_HASH = compile_pattern(r"(?<![\w/.#-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w-])")
_IS_NEWEST = compile_pattern(
    r"(?i)\bHEAD\b|\b(?:latest|newest|current|most recent|last) commit\b|\bcommit(?:ted)? (?:now )?at\b"
)
_BRANCH = compile_pattern(
    r"(?i)^(?:the )?(?:current |working |active |git |feature )*branch(?: name)?\s*(?::|is\b|=)\s*[`'\"*]*([\w][\w./#-]*\w)"
    r"|\bcurrent(?:ly)? (?:on )?(?:the )?(?:git |feature )*branch\s*(?::|is\b|=)?\s*[`'\"]+([\w][\w./#-]*\w)"
    r"|\b(?:we are|we're|i am|i'm|currently|now|works?|working|checked out|work (?:is|happens|continues)|everything is) on (?:the )?(?:git |feature |new )*"
    r"(?:branch )?[`'\"]+([\w][\w./#-]*\w)[`'\"]+"
    r"|\b(?:we are|we're|i am|i'm|currently|working) on (?:the )?branch ([\w][\w./#-]*\w)"
    r"|\bauf (?:dem )?(?:git-)?branch [`'\"]+([\w][\w./#-]*\w)"
    r"|^(?:aktuelle[rn]? (?:git-)?|derzeitige[rn]? )?branch:? (?:ist )?[`'\"]+([\w][\w./#-]*\w)|^(?:現在の)?ブランチ\s*[:：は]\s*[`「]+([\w][\w./#-]*\w)|^当前分支\s*[:：是]\s*`+([\w][\w./#-]*\w)"
)
_NO_BRANCH = frozenset(
    "is the a an and was to for from of in with that this it which name named called has off".split()
)
_FIELD = compile_pattern(r"[A-Za-z_][\w-]*(?:(?:\.|::|->|#)[A-Za-z_][\w-]*)*(?:\(\))?")
_TELLING = compile_pattern(r"[a-z][A-Z]|_|\(\)$|\.[a-z]{1,5}$|[A-Z][a-z]+[A-Z]")
MIN_NAME = 6


def judge_names(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Yield the names in a sentence that are wrong."""
    yield from _judge_hashes(sentence, evidence)
    yield from _judge_branch(sentence, evidence)
    yield from _judge_subject(sentence, evidence)
    for claim in extract_claims(sentence.text) if evidence.is_whole else ():
        if claim.kind == "path":
            yield from _judge_path(claim, sentence, evidence)
        elif claim.kind == "value" and f"`{claim.text}`" in sentence.text:
            yield from _judge_identifier(claim, evidence)


def _judge_hashes(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    found = list(dict.fromkeys(_HASH.findall(sentence.text)))
    for hash in found:
        if evidence.is_whole and hash[:7] not in evidence.lookup.folded:
            yield Correction(f"`{hash}`", "no commit or id of that name is in the thread")
    state = evidence.facts.repository
    commits = [c for c in state.commits if c.hash]
    live = [c for c in commits if not c.gone and c.branch == state.branch]
    if not live or len(found) != 1 or not _IS_NEWEST.search(sentence.text) or sentence.is_past:
        return
    newest = live[-1].hash
    is_older = any(is_same_hash(found[0], c.hash) for c in commits)
    if is_older and not is_same_hash(found[0], newest):
        ref = next(c.ref for c in commits if c.hash == newest)
        yield sentence.correct(f"the newest commit of the thread is `{newest}`", ref)


def _judge_branch(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    match = _BRANCH.search(sentence.text)
    if match is None or sentence.is_past or sentence.is_plan:
        return
    named, branch = match[match.lastindex or 1], evidence.facts.repository.branch
    if named.lower() in _NO_BRANCH or named == branch:
        return
    ref = evidence.facts.repository.branch_ref
    if branch and not branch.endswith(f"/{named}"):
        yield Correction(sentence.text, f"the branch is `{branch}`", (ref,) if ref else ())
    elif not branch and evidence.is_whole and not contains_verbatim(named, evidence.lookup.folded):
        yield sentence.correct(f"no branch `{named}` is in the thread")


def _judge_subject(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    match = _SUBJECT.search(sentence.text)
    if match is None:
        return
    commits = [c for c in evidence.facts.repository.commits if c.hash and c.subject]
    commit = next((c for c in commits if is_same_hash(match[1], c.hash)), None)
    if commit is None or fold_quote(match[2]) in evidence.lookup.lower:
        return
    words, known = (set(list_words(text)) for text in (match[2], commit.subject))
    if len(words & known) * 2 < len(words):
        truth = f'the subject of that commit is "{commit.subject}"'
        yield sentence.correct(truth, commit.ref)


_SUBJECT = compile_pattern(
    r"\b([0-9a-f]{7,40})[`*]*(?: was| is|:| -| –| —)? ?\(?[\"“]([^\"“”]{8,100})[\"”]"
)


def _judge_path(
    claim: TextClaim, sentence: Sentence, evidence: ThreadEvidence
) -> Iterator[Correction]:
    path = make_relative(claim.text, evidence.thread.cwd)
    name = path.rpartition("/")[2]
    if "." not in name or "*" in path or "{" in path or evidence.judge(claim) == "true":
        return
    if contains_verbatim(path, evidence.lookup.folded) or evidence.find_file(path):
        return
    known = evidence.known_paths.get(name, [])
    if not known and name not in evidence.lookup.folded:
        if not sentence.is_plan and not _ABSENT.search(sentence.words):
            yield Correction(f"`{claim.text}`", "no file of that name is in the thread")
    elif len(known) == 1 and "/" in path:
        parts = iter(known[0].split("/"))
        folders = (part for part in path.split("/") if part not in ("", ".", "..", "~"))
        if all(part in parts for part in folders):  # In the same order.
            return
        yield Correction(f"`{claim.text}`", f"in the thread that file is `{known[0]}`")


_ABSENT = compile_pattern(
    r"(?i)\b(?:not (?:asked|wanted|requested|created|written|there|in|part|needed|have|exist\w*)|never (?:created|written|asked|existed)"
    r"|does(?: not|n't) exist|no such|missing|nicht|kein\w*|fehlt)\b|ない|不存在"
)
"""What says that a file is not there, or not wanted."""


def _judge_identifier(claim: TextClaim, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Check a name of code in code marks."""
    text = claim.text
    bare = text.removesuffix("()")
    if len(bare) < MIN_NAME or not _FIELD.fullmatch(text) or not _TELLING.search(text):
        return
    if evidence.judge(claim) == "true" or bare.lower() in evidence.lookup.lower:
        return
    parts = [p for p in _PARTS.split(bare) if len(p) > 2]
    if len(parts) > 1 and all(part.lower() in evidence.lookup.lower for part in parts):
        return
    yield Correction(f"`{text}`", "that name does not occur in the thread")


_PARTS = compile_pattern(r"\.|::|->|#")
