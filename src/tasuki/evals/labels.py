"""What people say of a judge's items, and how far the judge agrees with them.

One JSON object a line: `{"case": …, "probe": …, "label": "pass"|"fail", "critique": …, "by": …}`, and,
so that a label counts for nothing else, `brief_sha256` and `answer_sha256`. Other keys are not read.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.evals.judge import Item, Judged
from tasuki.evals.proportion import Proportion, proportion

LEAST = 0.9
"""Share of labels that a judge must agree with to be trusted."""
NO_LABELS = "no labels by a person were given"
_MODEL = re.compile(
    r"model\s*:|[\w.-]+/[\w.:@/+-]+$|(?:claude|gpt|chatgpt|gemini|codex)-", re.IGNORECASE
)
"""Names of models: `model:…`, `provider/model-id`, or a well-known model's own."""


class Label(Struct, frozen=True):
    """A person's verdict on one item. An empty `label` is one that nobody has filled in yet."""

    case: str
    probe: str
    label: Literal["pass", "fail", ""] = ""
    critique: str = ""
    by: str = ""
    brief_sha256: str = ""
    answer_sha256: str = ""

    @property
    def is_by_a_person(self) -> bool:
        """Whether `by` is neither empty nor the name of a model."""
        return bool(self.by.strip()) and not _MODEL.match(self.by.strip())


class Disagreement(Struct, frozen=True):
    """An item that judge and person see differently, with both critiques."""

    case: str
    probe: str
    judge: str
    judge_critique: str
    label: str
    label_critique: str
    by: str


class Confusion(Struct, frozen=True):
    """How often judge and people said what; the first word is the judge's."""

    pass_pass: int = 0
    pass_fail: int = 0
    fail_pass: int = 0
    fail_fail: int = 0


class Ignored(Struct, frozen=True):
    """Labels that were not compared, by reason."""

    empty: int = 0
    """No label yet."""
    not_by_a_person: int = 0
    unmatched: int = 0
    """Of a case or probe that was not judged."""
    stale: int = 0
    """Of another brief or another answer."""
    disputed: int = 0
    """Items on which people do not agree."""


class Agreement(Struct, frozen=True):
    """How far a judge agrees with people; `kappa` (Cohen 1960) is None where chance alone agrees."""

    share: Proportion
    kappa: float | None
    confusion: Confusion
    disagreements: tuple[Disagreement, ...]

    @property
    def trusted(self) -> bool:
        """Whether it is 90 % or more."""
        return (self.share.share or 0.0) >= LEAST


class Measured(Struct, frozen=True):
    """What came of some labels: the agreement, or None with the reason."""

    agreement: Agreement | None = None
    reason: str = NO_LABELS
    ignored: Ignored = Ignored()


# -- reading -------------------------------------------------------------------------------


def read(path: Path) -> list[Label]:
    """The labels of a file. Raises UsageError, naming file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"No labels {path}: there is no such file.") from error
    except OSError as error:
        raise UsageError(f"Cannot read the labels {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"Cannot read the labels {path}: they are not UTF-8.") from error
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line.encode(), type=Label))
            except (msgspec.MsgspecError, RecursionError) as error:
                said = re.sub(r" - at `\$\.?(.*?)`$", r", at \1", str(error)).replace("`", "")
                raise UsageError(f"{path}, line {number}: {said}.") from error
    return found


def answer_sha256(item: Item) -> str:
    """What a label of an item is tied to beside its brief: question and answer."""
    said = f"{item.probe.question}\n{item.answer.text if item.answer else ''}"
    return hashlib.sha256(said.encode()).hexdigest()


def unlabelled(item: Item) -> Label:
    """The line for a person to fill in."""
    return Label(
        item.case,
        item.probe.id,
        brief_sha256=item.brief_sha256,
        answer_sha256=answer_sha256(item),
    )


# -- comparing -----------------------------------------------------------------------------


def measured(labels: Iterable[Label], judged: Sequence[Judged]) -> Measured:
    """How far the verdicts agree with the labels of people, one comparison an item."""
    verdicts = {(j.item.case, j.item.probe.id): j for j in judged if j.verdict.verdict}
    ignored: dict[str, int] = defaultdict(int)
    by_item: dict[tuple[str, str], list[Label]] = defaultdict(list)
    for label in labels:
        key = (label.case, label.probe)
        if not label.label:
            ignored["empty"] += 1
        elif not label.is_by_a_person:
            ignored["not_by_a_person"] += 1
        elif key not in verdicts:
            ignored["unmatched"] += 1
        elif not _is_of(label, verdicts[key].item):
            ignored["stale"] += 1
        else:
            by_item[key].append(label)
    pairs = []
    for key, found in by_item.items():
        if len({label.label for label in found}) > 1:
            ignored["disputed"] += 1
        else:
            pairs.append((verdicts[key], found[-1]))
    left = Ignored(**ignored)
    if not pairs:
        return Measured(None, _reason(left), left)
    return Measured(_agreement(pairs), "", left)


def _is_of(label: Label, item: Item) -> bool:
    same_brief = label.brief_sha256 in ("", item.brief_sha256)
    return same_brief and label.answer_sha256 in ("", answer_sha256(item))


def _reason(ignored: Ignored) -> str:
    told = {
        "not_by_a_person": "by nobody or by a model",
        "empty": "not filled in",
        "unmatched": "of something that was not judged",
        "stale": "of another brief or answer",
        "disputed": "disputed between people",
    }
    parts = [f"{n} {what}" for name, what in told.items() if (n := getattr(ignored, name))]
    return f"{NO_LABELS} ({', '.join(parts)})" if parts else NO_LABELS


def _agreement(pairs: Sequence[tuple[Judged, Label]]) -> Agreement:
    counts: dict[str, int] = defaultdict(int)
    apart = []
    for one, label in pairs:
        verdict = one.verdict
        counts[f"{verdict.verdict}_{label.label}"] += 1
        if verdict.verdict != label.label:
            apart.append(
                Disagreement(
                    label.case,
                    label.probe,
                    verdict.verdict or "",
                    verdict.critique,
                    label.label,
                    label.critique,
                    label.by,
                )
            )
    confusion = Confusion(**counts)
    same = confusion.pass_pass + confusion.fail_fail
    return Agreement(proportion(same, len(pairs)), kappa(confusion), confusion, tuple(apart))


def kappa(of: Confusion) -> float | None:
    """Cohen's kappa, 1 for full agreement, 0 for that of chance; None where chance agrees always."""
    total = of.pass_pass + of.pass_fail + of.fail_pass + of.fail_fail
    if not total:
        return None
    judge_passes, people_pass = of.pass_pass + of.pass_fail, of.pass_pass + of.fail_pass
    seen = (of.pass_pass + of.fail_fail) / total
    both = judge_passes * people_pass + (total - judge_passes) * (total - people_pass)
    by_chance = both / total**2
    return None if by_chance == 1 else round((seen - by_chance) / (1 - by_chance), 4)
