"""Files of a judge's run, what people say of its items, and how far the judge agrees with them."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from tasuki.errors import StoreFailed, UsageError
from tasuki_evals.judge.judge import AnsweredProbe, JudgedBrief, JudgedProbe, format_answer
from tasuki_evals.statistics import Proportion, build_proportion

MIN_AGREEMENT = 0.9
"""Share of labels that a judge must agree with to be trusted."""
_T = TypeVar("_T")
NO_LABELS = "no labels by a person were given"
_MODEL = re.compile(
    r"model\s*:|[\w.-]+/[\w.:@/+-]+$|(?:claude|gpt|chatgpt|gemini|codex)-", re.IGNORECASE
)
"""Names of models: `model:…`, `provider/model-id`, or a well-known model's own."""


class JudgeLabel(Struct, frozen=True):
    """A person's verdict on one item. An empty `label` is not filled in yet."""

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
    """An item on which judge and person disagree, with both critiques."""

    case: str
    probe: str
    judge: str
    judge_critique: str
    label: str
    label_critique: str
    by: str


class ConfusionCounts(Struct, frozen=True):
    """How often judge and people said what; the first word is the judge's."""

    pass_pass: int = 0
    pass_fail: int = 0
    fail_pass: int = 0
    fail_fail: int = 0


class IgnoredLabels(Struct, frozen=True):
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


class JudgeAgreement(Struct, frozen=True):
    """How far a judge agrees with people.

    `kappa` (Cohen 1960) is None if chance alone agrees.
    """

    share: Proportion
    kappa: float | None
    confusion: ConfusionCounts
    disagreements: tuple[Disagreement, ...]

    @property
    def is_trusted(self) -> bool:
        """Whether it is 90 % or more."""
        return (self.share.share or 0.0) >= MIN_AGREEMENT


class MeasuredAgreement(Struct, frozen=True):
    """The result of some labels: the agreement, or None with the reason."""

    agreement: JudgeAgreement | None = None
    reason: str = NO_LABELS
    ignored: IgnoredLabels = IgnoredLabels()


def read_labels(path: Path) -> list[JudgeLabel]:
    """Return the labels of a file. Raises UsageError, naming file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"No labels {path}: there is no such file.") from error
    except OSError as error:
        raise UsageError(f"Cannot read the labels {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"Cannot read the labels {path}: they are not UTF-8.") from error
    lines = enumerate(text.split("\n"), 1)
    return [
        _decode_line(path, number, line.encode(), JudgeLabel)
        for number, line in lines
        if line.strip()
    ]


def _decode_line(path: Path, number: int, line: bytes, type: type[_T]) -> _T:
    try:
        return msgspec.json.decode(line, type=type)
    except (msgspec.MsgspecError, RecursionError) as error:
        message = str(error)
        if type is JudgeLabel:
            message = re.sub(r" - at `\$\.?(.*?)`$", r", at \1", message)
        message = message.replace("`", "")
        raise UsageError(f"{path}, line {number}: {message}.") from error


def hash_answer(item: AnsweredProbe) -> str:
    """Return what ties a label to an item, in addition to the brief: question and answer."""
    hashed_text = f"{item.probe.question}\n{item.answer.text if item.answer else ''}"
    return hashlib.sha256(hashed_text.encode()).hexdigest()


def create_empty_label(item: AnsweredProbe) -> JudgeLabel:
    """Return the line for a person to fill in."""
    return JudgeLabel(
        item.case, item.probe.id, brief_sha256=item.brief_sha256, answer_sha256=hash_answer(item)
    )


def measure_agreement(
    labels: Iterable[JudgeLabel], judged: Sequence[JudgedProbe]
) -> MeasuredAgreement:
    """Return how far the verdicts agree with the labels of people, compared once per item."""
    verdicts = {(j.item.case, j.item.probe.id): j for j in judged if j.verdict.verdict}
    ignored: dict[str, int] = defaultdict(int)
    by_item: dict[tuple[str, str], list[JudgeLabel]] = defaultdict(list)
    for label in labels:
        key = (label.case, label.probe)
        if not label.label:
            ignored["empty"] += 1
        elif not label.is_by_a_person:
            ignored["not_by_a_person"] += 1
        elif key not in verdicts:
            ignored["unmatched"] += 1
        elif not _is_label_of(label, verdicts[key].item):
            ignored["stale"] += 1
        else:
            by_item[key].append(label)
    pairs = []
    for key, found in by_item.items():
        if len({label.label for label in found}) > 1:
            ignored["disputed"] += 1
        else:
            pairs.append((verdicts[key], found[-1]))
    left = IgnoredLabels(**ignored)
    if not pairs:
        return MeasuredAgreement(None, _explain_ignored(left), left)
    return MeasuredAgreement(_compute_agreement(pairs), "", left)


def _is_label_of(label: JudgeLabel, item: AnsweredProbe) -> bool:
    same_brief = label.brief_sha256 in ("", item.brief_sha256)
    return same_brief and label.answer_sha256 in ("", hash_answer(item))


def _explain_ignored(ignored: IgnoredLabels) -> str:
    reasons = {
        "not_by_a_person": "not by a person", "empty": "not filled in",
        "unmatched": "for something that was not judged", "stale": "for another brief or answer",
        "disputed": "disputed between people",
    }  # fmt: skip
    parts = [f"{n} {what}" for name, what in reasons.items() if (n := getattr(ignored, name))]
    return f"{NO_LABELS} ({', '.join(parts)})" if parts else NO_LABELS


def _compute_agreement(pairs: Sequence[tuple[JudgedProbe, JudgeLabel]]) -> JudgeAgreement:
    counts: dict[str, int] = defaultdict(int)
    disagreements = []
    for one, label in pairs:
        verdict = one.verdict
        counts[f"{verdict.verdict}_{label.label}"] += 1
        if verdict.verdict != label.label:
            theirs = (label.label, label.critique, label.by)
            ours = (verdict.verdict or "", verdict.critique)
            disagreements.append(Disagreement(label.case, label.probe, *ours, *theirs))
    confusion = ConfusionCounts(**counts)
    share = build_proportion(confusion.pass_pass + confusion.fail_fail, len(pairs))
    return JudgeAgreement(share, compute_kappa(confusion), confusion, tuple(disagreements))


def compute_kappa(confusion: ConfusionCounts) -> float | None:
    """Return Cohen's kappa: 1 for full agreement, 0 for chance; None if chance always agrees."""
    total = confusion.pass_pass + confusion.pass_fail + confusion.fail_pass + confusion.fail_fail
    if not total:
        return None
    judge_passes = confusion.pass_pass + confusion.pass_fail
    people_pass = confusion.pass_pass + confusion.fail_pass
    seen = (confusion.pass_pass + confusion.fail_fail) / total
    both = judge_passes * people_pass + (total - judge_passes) * (total - people_pass)
    by_chance = both / total**2
    return None if by_chance == 1 else round((seen - by_chance) / (1 - by_chance), 4)


ITEMS, LABELS, VERDICTS = "items.jsonl", "labels.jsonl", "verdicts.jsonl"


class SavedBrief(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of `items.jsonl`: a brief and its items."""

    brief: JudgedBrief
    items: tuple[AnsweredProbe, ...]


def _build_saved_verdict(one: JudgedProbe) -> dict[str, object]:
    """Return one line of `verdicts.jsonl`."""
    item, verdict = one.item, one.verdict
    return {
        "case": item.case, "probe": item.probe.id, "answer_sha256": hash_answer(item),
        "verdict": verdict.verdict, "critique": verdict.critique, "refs": verdict.refs,
        "problem": verdict.problem,
    }  # fmt: skip


def is_saved_run(path: Path) -> bool:
    """Return whether a path is a folder with a saved run."""
    return (path / ITEMS).is_file()


def read_saved_run(folder: Path) -> list[SavedBrief]:
    """Return what a run saved. Raises UsageError, naming file and line."""
    path = folder / ITEMS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    return [_decode_line(path, n, line, SavedBrief) for n, line in enumerate(lines, 1)]


class JudgeRunWriter:
    """Writes a run into a folder, one brief after the other.

    Raises UsageError if the folder already holds labels: they are a person's work.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (LABELS, ITEMS):
            if (folder / name).exists():
                raise UsageError(f"{folder} holds {name} of another run. Choose another folder.")

    def __call__(self, brief: JudgedBrief, judged: Sequence[JudgedProbe]) -> None:
        """Save one brief with its judged probes. Raises StoreFailed."""
        items = tuple(one.item for one in judged)
        try:
            place = self.folder / _format_file_name(brief.case)
            place.mkdir(parents=True, exist_ok=True)
            (place / "brief.md").write_text(brief.text, encoding="utf-8")
            for item in items:
                sheet = place / f"{_format_file_name(item.probe.id)}.md"
                sheet.write_text(_format_sheet(item), "utf-8")
            self._append_rows(ITEMS, [SavedBrief(brief, items)])
            self._append_rows(VERDICTS, map(_build_saved_verdict, judged))
            self._append_rows(LABELS, [create_empty_label(item) for item in items if item.answer])
        except OSError as error:
            raise StoreFailed(f"Cannot write to {self.folder}: {error.strerror}.") from error

    def _append_rows(self, name: str, rows: Iterable[object]) -> None:
        with (self.folder / name).open("ab") as file:
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)


def _format_file_name(name: str) -> str:
    """Return a file name for a case; ids of threads may contain anything."""
    safe = re.sub(r"[^\w.#-]", "_", name, flags=re.ASCII).lstrip(".")[:100]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _format_sheet(item: AnsweredProbe) -> str:
    """Return one item for a person to read and to label."""
    probe = item.probe
    parts = {
        "Question": probe.question,
        "The answer from the brief": format_answer(item.answer) if item.answer else item.problem,
        "Truth": f"{probe.truth}\n\n{probe.entries}",
    }
    head = f"# {item.case} {probe.id}\n\n"
    return head + "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items()) + "\n"
