"""The page of the continuation benchmark: one file, all plots, and no word that is taken for HTML."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from long_threads import written

from tasuki.config.installation import build_install_line
from tasuki.errors import ExtraMissing
from tasuki_evals.cli.main import eval as group
from tasuki_evals.continuation import benchmark, page
from tasuki_evals.continuation.benchmark import (
    ContinuationCase,
    ContinuationOptions,
    ContinuationReport,
    UnmeasuredItem,
)

HOSTILE = '"><script>alert(1)</script>$\\frac{x}{0}$ & \x1b[31m\u202eÄ木' + "n" * 400


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ContinuationReport:
    """Two repositories, both kinds of case, three budgets."""
    folder = tmp_path_factory.mktemp("threads")
    written(folder, "claude", 1, (5,))
    written(folder, "pi", 2)
    found = benchmark.run_benchmark([folder], ContinuationOptions(curve=(300, 600)), workers=1)
    cases = tuple(
        ContinuationCase(c.name, c.thread, c.harness, c.harness, c.kind, c.methods)
        for c in found.cases
    )
    return ContinuationReport(
        tasuki=found.tasuki, cases=cases, left_out=(UnmeasuredItem("x.jsonl", "it is empty"),)
    )


def rendered(report: ContinuationReport) -> str:
    """The page."""
    return page.render_page(report, benchmark.build_rows(report.cases))


@pytest.fixture(scope="module")
def text(report: ContinuationReport) -> str:
    """The page of that report."""
    return rendered(report)


class Elements(HTMLParser):
    """Names and attributes of all elements, and whether every one that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(text: str) -> None:
    """No script, no address, no file: what is referred to stands in the page itself."""
    elements = Elements(text)
    references = {v for n, v in elements.attributes if n in ("src", "href", "data", "action")}

    assert elements.open == []
    assert "http" not in text
    assert "url(" not in re.sub(r"url\(#", "", text)
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(elements.names)
    assert references
    assert all((r or "").startswith("#") for r in references)


def test_all_plots_and_tables_are_there(text: str) -> None:
    """Curves, targets, differences at both kinds, repositories; seven tables in all but one kind."""
    plots = re.findall(r'aria-label="([^"]+)"', text)

    assert {f"{c} against budget" for c in ("edit", "file", "cmd", "id")} <= set(plots)
    assert {"id of every method at cuts", "id of every method at compactions"} <= set(plots)
    assert {
        "tasuki minus last at cuts",
        "tasuki at half minus native summary at compactions",
    } <= set(plots)
    assert {f"{c} by repository" for c in ("edit", "file", "cmd", "id", "pfile")} <= set(plots)
    assert text.count("<svg") == len(plots) == len(set(plots))
    assert text.count("<table>") == 6
    assert "<h2>Left out: 1</h2>" in text
    assert "1: it is empty" in text


def test_colours_are_those_of_the_page(text: str) -> None:
    """Drawings name variables, which are set for light and for dark: no colour of their own."""
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    used = set(re.findall(r"var\((--\w+)\)", text))
    light, dark = (
        set(re.findall(r"(--\w+):", part)) for part in text.split("prefers-color-scheme", 1)
    )

    assert re.findall(r"#[0-9a-f]{6}\b", drawings) == []
    assert used <= light == dark


@pytest.mark.long
def test_the_page_is_the_same_twice(report: ContinuationReport, text: str) -> None:
    """No date, no chance, no style of the user's own."""
    import matplotlib

    with matplotlib.rc_context({"axes.titlepad": 40, "lines.linestyle": "--"}):
        second = rendered(report)

    assert text == second
    assert "Matplotlib v" not in text


def test_hostile_names_are_escaped(report: ContinuationReport) -> None:
    """A repository, an author or a reason may hold anything; the page stays a page."""
    cases = tuple(
        ContinuationCase(
            c.name,
            c.thread,
            HOSTILE,
            (HOSTILE, "$\\frac{x}{0$", "")[n % 3],
            c.kind,
            c.methods,
            by=HOSTILE,
        )
        for n, c in enumerate(report.cases)
    )
    text = rendered(
        ContinuationReport(
            tasuki=HOSTILE, cases=cases, left_out=(UnmeasuredItem(HOSTILE, HOSTILE),)
        )
    )
    elements = Elements(text)

    assert elements.open == []
    assert "script" not in elements.names
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text


def test_a_report_with_little_in_it_is_a_page_too() -> None:
    """One case with one figure, no curve, one repository."""
    case = ContinuationCase(
        "t#1", "t", "claude", "r", "cut", {"tasuki": {"edit": 1.0, "tokens": 10.0}}
    )
    text = rendered(ContinuationReport(cases=(case,)))

    assert Elements(text).open == []
    assert "Recall against budget" not in text
    assert "By repository" not in text
    assert "edit of every method at cuts" in text


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    """`--html` measures the further budgets and draws them; the tables are printed as ever."""
    file = tmp_path / "page.html"
    path = written(tmp_path, "claude")
    done = CliRunner().invoke(
        group, ["continuation", str(path), "--html", str(file), "--workers", "1"]
    )

    assert done.exit_code == 0
    assert "At 3 cuts of 1 thread" in done.stdout
    assert "Recall against budget" in file.read_text()


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is asked for before minutes are spent, and only by `--html`."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    path = written(tmp_path, "claude")
    with (
        click.Context(group),
        pytest.raises(ExtraMissing, match=re.escape(build_install_line("eval"))),
    ):
        group.main(
            ["continuation", str(path), "--html", str(tmp_path / "p.html")], standalone_mode=False
        )

    assert group.main(["continuation", str(path), "--workers", "1"], standalone_mode=False) == 0
