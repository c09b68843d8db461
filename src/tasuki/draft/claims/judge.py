"""Judge what a sentence says of a thread: each thing that is false, with what is so instead.

What is true, or cannot be known, gives nothing. A draft drops what is false or not shown, and a
compaction corrects what is false in a summary.
"""

from collections.abc import Iterator, Sequence

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.names import judge_names
from tasuki.draft.claims.sentences import Correction, Sentence, split_clauses
from tasuki.draft.claims.user_words import judge_user_act, judge_user_words
from tasuki.draft.claims.work import judge_work
from tasuki.draft.facts.rules import UserRule


def judge_sentence(
    sentence: Sentence, evidence: ThreadEvidence, rules: Sequence[UserRule]
) -> Iterator[Correction]:
    """Yield what a sentence gets wrong, where the thread proves it."""
    yield from judge_user_words(sentence, evidence, rules)
    yield from (found for found in judge_work(sentence, evidence) if found.is_proven)
    yield from judge_names(sentence, evidence)


def find_refuted(text: str, refs: Sequence[int], evidence: ThreadEvidence) -> str:
    """Return why a sentence that cites some entries is not so, or is not shown; empty if nothing is wrong."""
    found = list(judge_work(Sentence(text, refs=tuple(refs)), evidence))
    for clause in () if found else split_clauses(text):
        found += judge_user_act(Sentence(clause), evidence)
    return found[0].truth if found else ""
