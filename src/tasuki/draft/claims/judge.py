"""Judge what a sentence of a summary says of a thread: each thing that is false, with what is so instead.

What is true, or cannot be known, gives nothing. `statuses.py` judges the sentences of a draft, of
which also what the thread does not show is dropped.
"""

from collections.abc import Iterator, Sequence

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.names import judge_names
from tasuki.draft.claims.sentences import Correction, Sentence
from tasuki.draft.claims.user_words import judge_user_words
from tasuki.draft.claims.work import judge_work
from tasuki.draft.facts.rules import UserRule


def judge_sentence(
    sentence: Sentence, evidence: ThreadEvidence, rules: Sequence[UserRule]
) -> Iterator[Correction]:
    """Yield what a sentence gets wrong, where the thread proves it."""
    yield from judge_user_words(sentence, evidence, rules)
    yield from judge_work(sentence, evidence)
    yield from judge_names(sentence, evidence)
