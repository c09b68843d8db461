"""The agents of `scripts/demo dashboard`: who they are, what they are asked, and what they do then."""

import re
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENTS = Path(__file__).with_name("documents")
HELD = "document-may-be-written"
"""A file of the demonstration: one agent writes its handoff document once it is there."""
READ = "document-was-read"
"""Its successor answers once this one is there."""

Actions = list[list[Any]]


class Part(NamedTuple):
    """An agent: its persona, its project, its skill, what it is asked first, and what it does then."""

    role: str
    name: str
    project: str
    skill: str
    prompt: str
    does: Actions

    @property
    def slug(self) -> str:
        """Its persona."""
        return f"{self.role}-{self.name}-1"


RETRY = """class Budget:
    def __init__(self, seconds: float = 30.0) -> None:
        self.ends = time.monotonic() + seconds

    def allows(self, wait: float) -> bool:
        return time.monotonic() + wait < self.ends
"""
MONEY = """LEGACY_UNTIL = date(2026, 1, 1)


def rounded(amount: Decimal, day: date) -> Decimal:
    how = ROUND_HALF_UP if day < LEGACY_UNTIL else ROUND_HALF_EVEN
    return amount.quantize(Decimal("0.01"), rounding=how)
"""
MENU = (
    "document.addEventListener('keydown', (event) => { if (event.key === 'Escape') close(); });\n"
)
QUOTAS = "# Quotas\n\n## 4. Who owns `bucket_usage`?\n\nUploads or billing. Open.\n"

CON = Part(
    "developer", "con", "orchard-api", "You are Con, a developer. You make small changes and test each of them.",
    "Uploads die when the gateway answers 429 or 503. Make them retry, for at most 30 seconds in all. Never touch vendor/.",
    [["run", "git log --oneline -3"], ["write", "{cwd}/src/upload/retry.py", "import time\n\nWAITS = (1, 2, 4, 8)\n"],
     ["context", 82], ["say", "The loop is in src/upload/retry.py: four attempts, 15 seconds in all. upload() still sleeps for as long as Retry-After says, which was 3600 once."]],
)  # fmt: skip
MIRA = Part(
    "developer", "mira", "orchard-web", "You are Mira, a developer of interfaces. You try everything by keyboard.",
    "Make the nine menus usable by keyboard alone: arrows, Escape, and the focus back on the button.",
    [["write", "{cwd}/src/menu.js", MENU], ["run", "git status --short"], ["context", 86],
     ["say", "Seven of nine menus are done: Escape closes, and the focus is back on the button. Next I would start on the gallery, which opens on hover."]],
)  # fmt: skip
ROBIN = Part(
    "reviewer", "robin", "orchard-api", "You are Robin, a reviewer. You read what others changed and name what can fail.",
    "Review the branch retry-budget.",
    [["run", "git log --oneline -2"], ["context", 52],
     ["say", "One finding: Budget.allows is not asked before the first attempt. To judge the migration I would run it down and up once."]],
)  # fmt: skip
JUNO = Part(
    "tester", "juno", "ledger", "You are Juno, a tester. You write the test that would have caught it.",
    "Write a test for the import of bookings that are dated in the future.",
    [["write", "{cwd}/tests/test_future.py", "def test_a_future_booking_is_refused() -> None: ...\n"], ["context", 23],
     ["say", "tests/test_future.py is there and fails as it should: a booking of next year is taken in without a word."]],
)  # fmt: skip
RAVI = Part(
    "developer", "ravi", "ledger", "You are Ravi, a developer. Sums agree to the cent, or you stop.",
    "Round half-even everywhere. The sums of 2025 were filed and must not change.",
    [["write", "{cwd}/ledger/money.py", MONEY], ["context", 88],
     ["say", "Rounding is half-even in all eleven callers; bookings before 2026 keep the old one. The export still rounds by itself."]],
)  # fmt: skip
LENA = Part(
    "architect", "lena", "orchard-api", "You are Lena, an architect. You write down what was rejected, and why.",
    "Design quotas for buckets: who may store how much, and where is it counted?",
    [["write", "{cwd}/docs/quotas.md", QUOTAS], ["context", 91],
     ["say", "docs/quotas.md holds the table and its three invariants. Open point: who owns bucket_usage, uploads or billing."]],
)  # fmt: skip
PARTS = (CON, MIRA, ROBIN, JUNO, RAVI, LENA)
PROJECTS = ("orchard-api", "orchard-web", "ledger")

SECOND = "Bound Retry-After by what is left of the 30 seconds, then write the tests."
THIRD = "Go on with the README, and run the whole suite at the end."
ANONYMOUS = "Why does the gallery open on hover?"
MIGRATE = "Yes, run the migration down and up once."
GOAL = "Make the two menus of the gallery work by keyboard, and try all nine with a screen reader"
MILESTONE = "The budget works and is tested"


def rules(folder: Path) -> list[dict[str, Any]]:
    """What the agents do, as rules of the scripted harness; the first that fits a prompt counts."""
    return [
        _document("developer-con-1", "budget", reason=MILESTONE),
        _document("developer-con-1", "retries"),
        _document("developer-mira-1", "menu", [["sleep", 3]]),
        {"match": _wanted("developer-ravi-1"), "times": 1, "do": [
            ["run", "git status --short"], ["say", "Before I write that down: may the export round by itself until the sums are compared?"]]},
        _document("developer-ravi-1", "rounding", [["sleep", 3]]),
        _document("architect-lena-1", "quotas", [["wait_for", str(folder / HELD)]]),
        _taken_over("developer-con-1", 17, "I have read the document. upload() is where it stopped, the tests come next."),
        _taken_over("architect-lena-1", 8, "I have read the document; sections 1 to 3 of docs/quotas.md agree with it.", [["wait_for", str(folder / READ)]]),
        _taken_over("developer-mira-1", 9, "I have read the document. Two menus are left, both of the gallery; I start with the one of the covers."),
        _taken_over("developer-ravi-1", 8, "I have read the document. money.py is as it says; the export comes next, then the sums of 2025."),
        *({"match": re.escape(part.prompt), "do": [["sleep", 1], *part.does]} for part in PARTS),
        {"match": re.escape(SECOND), "do": [
            ["write", "{cwd}/src/upload/retry.py", RETRY], ["write", "{cwd}/tests/test_retry.py", "def test_a_header_above_the_budget_fails_at_once() -> None: ...\n"],
            ["context", 64], ["say", "A Retry-After above the budget fails at once. 9 tests, all pass; the README is left."]]},
        {"match": re.escape(THIRD), "do": _works()},
        {
            "match": re.escape(MIGRATE),
            "do": [
                ["context", 58], ["permit", "alembic downgrade -1 && alembic upgrade head", "Run the migration down and up once"],
                ["say", "The migration goes down and up again, and the sums agree."],
            ],
        },
        {"match": re.escape(ANONYMOUS), "do": [
            ["run", "git log --oneline -2"], ["context", 41],
            ["say", "Because of one rule in src/gallery.css that is older than the menus. It can go once the buttons have an aria-expanded."]]},
        {"match": r"(?s)\A(?!.*\bhandoff\b)", "do": [["sleep", 2], ["say", "Done as you say. I only play an agent here: tasuki's scripted harness, by a script and without a model."]]},
    ]  # fmt: skip


def _works() -> Actions:
    """A long turn in which something is done now and then."""
    one: Actions = [["run", "git log --oneline -1"], ["sleep", 20]]
    return [
        ["context", 31],
        *one * 45,
        ["say", "README.md tells the limits. The whole suite passes."],
    ]


def _wanted(slug: str, reason: str = "") -> str:
    """The prompt that asks an agent of a persona for its document, with the path in it."""
    asked = rf"Reason: {reason}.*?" if reason else ""
    return rf"(?is)\bwrite\b.*?{asked}(?P<path>/[^\s`'\"]*/{slug}/handoffs/[^\s`'\"]+\.md)"


def _document(
    slug: str, file: str, first: Actions | None = None, reason: str = ""
) -> dict[str, Any]:
    text = (DOCUMENTS / f"{file}.md").read_text("utf-8")
    done = ["say", "The handoff document is written."]
    return {"match": _wanted(slug, reason), "do": [*(first or []), ["write", "{path}", text], done]}


def _taken_over(
    slug: str, percent: int, words: str, first: Actions | None = None
) -> dict[str, Any]:
    match = (
        rf"(?is)\btake over from agent \d+ \({slug}\b.*?by itself: handoff (?P<short>[0-9a-f]{{8}})"
    )
    begin: Actions = [["sleep", 1], ["context", percent], *(first or [])]
    return {"match": match, "do": [*begin, ["say", "handoff {short}\n" + words]]}
