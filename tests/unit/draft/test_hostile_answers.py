"""Spoilt, endless and slow answers of authors are read at once or turned down, and break nothing."""

import random
import time
from pathlib import Path

import msgspec
import pytest
from test_extraction import Bench, item, said

from tasuki.draft import brief
from tasuki.draft.authors import document
from tasuki.draft.claims import checker

TRUE = "The upload client retries three times; the delay is fixed: "


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A small thread and its authors."""
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        "## Key Decisions\n- a\n## \n- b",
        "## Key Decisions\n" + "- a" + " \t" * 60_000 + "b",
        "## Key Decisions\n" + "-" * 190 + "x",
        "## Key Decisions\n- a\n# " + " #" * 90 + "x",
        "## Key Decisions\n- a\n" + "b\n" * 90_000,
    ],
)
def test_no_document_takes_long_or_fails(text: str) -> None:
    """Empty headings, long lines, rules and endless items are read at once."""
    began = time.monotonic()
    parsed = document.parse_document(text)

    assert parsed.answer.decisions
    assert time.monotonic() - began < 3


def test_code_in_a_document_is_code(bench: Bench) -> None:
    """A block belongs to its item and is looked up; a fence around a whole document is none."""
    parsed = document.parse_document(
        "Here it is:\n```markdown\n## Key Decisions\n- One:\n  ```sh\n  # now\n  rm -rf /\n  ```\n"
        "- Two\n```\n"
    )

    assert [d.text for d in parsed.answer.decisions] == ["One: `# now rm -rf /`", "Two"]


BITS = (
    '"', "\\", "```", "\ud800", "\x00", "\x1b[31m", "\u202e", "{", "}", "[", "]", "null", "NaN", "9" * 5_000, "U1", "F1",
    "…", "[REDACTED:x]", "\n", "\n## \n", "\n## Next Goal (verbatim)\nrm -rf", "</record-of-the-past>", "|---|", "é", "日本語",
)  # fmt: skip
MARKDOWN = """\
## Constraints & Preferences
- U1

## Progress
### Done
- [x] Retries in `RETRY_DELAY` [#3]

## Key Decisions
1. **no** global session [#5]

## Critical Context
```
code
```
### Relevant Files
- `src/upload/client.py` — holds it

## Next Steps
- Write the test
"""


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_breaks_a_handoff(bench: Bench, seed: int) -> None:
    """A spoilt answer is unusable or checked; the brief keeps its one fence and can be stored."""
    chance = random.Random(seed)
    whole = said(
        relevantFiles=[{"file": "F1", "reason": "holds `RETRY_DELAY`", "refs": [3]}, None, 7],
        relevantCommands=[{"command": "C1", "reason": "", "refs": [2**70, -1, "x"]}],
        relevantInformation=[item(TRUE + "as #2 says.", 2), {"text": ["x"], "refs": {}}],
        constraints=[item("U1"), "U1, U2"],
    )
    for _ in range(40):
        shape = chance.choice(("structured", "markdown"))
        text = whole if shape == "structured" else MARKDOWN
        for _ in range(chance.randint(1, 4)):
            at = chance.randint(0, len(text))
            text = text[:at] + chance.choice(BITS) + text[at + chance.choice((0, 0, 1, 6)) :]
        draft, _ = bench.draft(text, text, shape=shape)  # type: ignore[arg-type]
        context = brief.render_context(draft, "ab12cd34" * 4)
        msgspec.json.encode(draft)

        assert context.count(brief.FENCE_CLOSE) == 1
        assert "\n## Next Goal" not in context
        assert context.isprintable() or not set(context) & set("\x00\x1b\u202e")


def test_what_is_dropped_is_kept_short(bench: Bench) -> None:
    """An item of a megabyte is not stored with the handoff."""
    endless = said(relevantInformation=[item("`invented_name` " + "word " * 60_000, 2)])
    draft, _ = bench.draft(endless, said(constraints=["U1"]))

    assert max(len(d.text) for d in draft.dropped) <= checker.DROPPED_CHARACTERS


def test_many_inventions_cost_few_passes_over_the_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences are looked up together, and no further than to their first invention."""
    passes: list[int] = []

    def occurring(paths: object, needles: list[str], extents: object) -> set[str]:
        passes.append(len(needles))
        return set()

    monkeypatch.setattr("tasuki.draft.claims.lookup.find_occurring", occurring)
    lies = [item(f"{TRUE}`made_up_{n}` in src/none/x{n}.py is `other_{n}`.", 2) for n in range(9)]
    bench.draft(said(relevantInformation=lies), said(constraints=[item("U1")]))

    assert passes[0] == 9
    assert len(passes) <= 2
