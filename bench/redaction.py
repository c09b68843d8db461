"""Measures redaction: recall, false positives, speed, import time, hostile input; other libraries where installed.

    python bench/redaction.py [CORPUS]
    python bench/redaction.py --ablate    what each file and each function is worth

CORPUS is a folder of threads, JSON or JSON lines, plain or gzipped; the marks made in them are listed for judging.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

from secrets_generator import Sample, leaked  # noqa: E402
from secrets_lookalikes import texts  # noqa: E402
from secrets_sets import SETS  # noqa: E402

from tasuki.draft.redact.redactor import Redactor, find, redact  # noqa: E402

Clean = Callable[[str], str]
KEPT = contextlib.ExitStack()


def main() -> None:
    """Prints the table, the times on hostile input, and with a corpus the marks made in it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", nargs="?", type=Path)
    parser.add_argument(
        "--ablate", action="store_true", help="what each file and function is worth"
    )
    options = parser.parse_args()
    if options.ablate:
        from redaction_parts import print_parts

        print_parts()
        return
    made = {name: make() for name, (make, _) in SETS.items()}
    for name, samples in made.items():
        kinds, contexts = {s.kind for s in samples}, {s.context.split("/")[0] for s in samples}
        caught = recall(SETS[name][1], samples)
        print(f"{name:14}{caught:.3f} of {len(samples):5} samples, {len(kinds)} kinds, {len(contexts)} contexts")  # fmt: skip
    sets = {name: made[name] for name in ("tuned", "held-out")}
    lookalikes, text = texts(), ordinary_text()
    print(
        f"look-alikes: {len(lookalikes)}; ordinary text: {len(text) / 1e6:.1f} MB of Python's library\n"
    )
    print(f"{'engine':26}{'tuned':>8}{'held-out':>10}{'false +':>9}{'MB/s':>8}{'import ms':>11}")
    for name, module, make in ENGINES:
        if importlib.util.find_spec(module.split(".")[0]) is None:
            print(f"{name:26} not installed, skipped")
            continue
        clean = make()
        found = [f"{recall(clean, samples):.3f}" for samples in sets.values()]
        wrong = sum(clean(t) != t for t in lookalikes) / len(lookalikes)
        speed = megabytes_per_second(clean, text if module == "tasuki" else text[:200_000])
        cost = import_milliseconds("tasuki.draft.redact.redactor" if module == "tasuki" else module)
        print(f"{name:26}{found[0]:>8}{found[1]:>10}{wrong:>9.4f}{speed:>8.1f}{cost:>11.1f}")
    print_misses(sets["held-out"])
    print_hostile()
    if options.corpus:
        print_corpus(options.corpus)


# ---- engines -------------------------------------------------------------------------------------------------------


def ours() -> Clean:
    """tasuki's own redaction, a new one for each text."""
    return lambda text: redact(text)[0]


def detect_secrets() -> Clean:
    """detect-secrets with all its default plugins, line by line as it is made for."""
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    KEPT.enter_context(default_settings())

    def clean(text: str) -> str:
        values = {s.secret_value for line in text.split("\n") for s in scan_line(line)}
        return without(text, values)

    return clean


def betterleaks() -> Clean:
    """betterleaks, which is gitleaks' successor, through its Python binding."""
    from betterleaks import scan_string

    return lambda text: without(text, {f.match.value for f in scan_string(text)})


def scrubbers() -> Clean:
    """scrubbers, a redactor written in Rust."""
    from scrubbers import scrub_text

    return lambda text: str(scrub_text(text))


def agentsweep() -> Clean:
    """agentsweep, which redacts the histories of coding agents."""
    from agentsweep.scanner import scan_text

    return lambda text: without(text, {f.value for f in scan_text(text)})


def without(text: str, values: set[Any]) -> str:
    """The text without the values that an engine reports."""
    for value in sorted((v for v in values if v), key=len, reverse=True):
        text = text.replace(value, "[REDACTED:x]")
    return text


ENGINES: tuple[tuple[str, str, Callable[[], Clean]], ...] = (
    ("tasuki", "tasuki", ours),
    ("detect-secrets", "detect_secrets", detect_secrets),
    ("betterleaks", "betterleaks", betterleaks),
    ("scrubbers", "scrubbers", scrubbers),
    ("agentsweep", "agentsweep", agentsweep),
)

# ---- measures ------------------------------------------------------------------------------------------------------


def recall(clean: Clean, samples: list[Sample]) -> float:
    """Share of the samples whose secret is no longer readable."""
    return 1 - sum(leaked(s, clean(s.text)) for s in samples) / len(samples)


def ordinary_text(size: int = 4_000_000) -> str:
    """Source text that every installation of Python has, the same for one version."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "\n".join(f.read_text("utf-8", "replace") for f in files)[:size]


def megabytes_per_second(clean: Clean, text: str) -> float:
    """Best of three runs by processor time, so that a busy machine counts less."""
    times = []
    for _ in range(3):
        start = time.process_time()
        clean(text)
        times.append(time.process_time() - start)
    return len(text) / 1e6 / min(times)


def import_milliseconds(module: str) -> float:
    """Best of seven: what the import costs in a new interpreter that has `re` and `typing` already, as any run has."""
    code = (
        f"import sys, time; sys.path.insert(0, {str(ROOT / 'src')!r}); import re, typing, base64; a = time.process_time()\n"
        f"import {module}\nprint((time.process_time() - a) * 1000)"
    )
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=quiet)
        for _ in range(7)
    ]
    return min(float(r.stdout or "nan") for r in runs)


HOSTILE = {
    "one letter": "a" * 1_000_000,
    "equals signs": "=" * 1_000_000,
    "backslashes": "\\" * 1_000_000,
    "spaces after a name": "password is" + " " * 1_000_000,
    "names": "password " * 111_000,
    "names, no values": "password=" * 111_000,
    "sentences": "password is " * 83_000,
    "commands": "curl -u " * 125_000,
    "htpasswd": "htpasswd -b " * 83_000,
    "cookies": "cookie: " * 125_000,
    "tokens of tokens": "eyJaaaaaaaa-" * 83_000,
    "key blocks": ("-----BEGIN " + "PRIVATE KEY-----\n" + "A" * 64) * 10_000,
    "marks": "[REDACTED:password] password=hunter22 " * 26_000,
}  # fmt: skip


def print_hostile() -> None:
    """Seconds for one megabyte of text made to be slow."""
    print("\nhostile input, seconds for 1 MB")
    for name, text in HOSTILE.items():
        start = time.process_time()
        redact(text)
        print(f"  {name:24}{time.process_time() - start:8.2f}")


def print_misses(samples: list[Sample]) -> None:
    """The held-out contexts in which anything was missed."""
    missed: dict[str, int] = {}
    for sample in samples:
        if leaked(sample, redact(sample.text)[0]):
            context = sample.context.split("/")[0]
            missed[context] = missed.get(context, 0) + 1
    print(
        "\nheld-out contexts with misses:", ", ".join(f"{k} {v}" for k, v in sorted(missed.items()))
    )


# ---- a corpus ------------------------------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, but for encrypted reasoning and signatures."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("signature", "encrypted_content", "data"):
                yield from strings(item)


def thread_texts(path: Path) -> list[str]:
    """The texts of one thread file of any harness."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8", "replace")
    if ".json" not in path.name:
        return [text]
    records = text.splitlines() if ".jsonl" in path.name else [text]
    return [s for r in records if r.strip() for s in strings(json.loads(r)) if len(s) >= 20]


def print_corpus(folder: Path) -> None:
    """Every distinct mark made in the threads of the folder, with what stands before it, to be judged by eye."""
    size, marks, seen = 0, 0, dict[tuple[str, str], tuple[int, str]]()
    start = time.process_time()
    for path in sorted(
        p for p in folder.rglob("*") if p.name.endswith((".gz", ".jsonl", ".json", ".md"))
    ):
        redactor = Redactor()
        for text in thread_texts(path):
            size += len(text)
            redactor.redact(text)
            for span in find(text):
                key = (span.kind, text[span.start : span.end][:48])
                seen[key] = (
                    seen.get(key, (0, ""))[0] + 1,
                    text[max(0, span.start - 60) : span.start],
                )
        marks += sum(redactor.counts.values())
    taken = time.process_time() - start
    print(
        f"\ncorpus: {size / 1e6:.1f} MB of text, {marks} marks, {len(seen)} distinct, {taken:.1f} s"
    )
    for (kind, value), (count, before) in sorted(seen.items()):
        print(f"  {kind} ×{count}: {before!r} → {value!r}")


if __name__ == "__main__":
    with KEPT:
        main()
