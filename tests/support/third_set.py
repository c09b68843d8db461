"""Three ordinary threads: a Rust CLI, a Django shop, a TypeScript frontend.

Their sentences were written before anything was checked against them. At the first run 34 of the
60 false ones were corrected and 4 of the 105 true ones contradicted; 28 of the 30 rules were
found, and 5 of the 40 ordinary messages taken for rules.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from third_sentences import (
    FRONTEND_FALSE,
    FRONTEND_TRUE,
    RUST_FALSE,
    RUST_TRUE,
    SHOP_FALSE,
    SHOP_TRUE,
)

from tasuki.compaction.block import RestoreBlock, build_block
from tasuki.compaction.moment import find_last_compaction
from tasuki.harness import registry as harnesses
from tasuki_testing.builder import ThreadBuilder


def build_rust_thread() -> ThreadBuilder:
    """Return a thread about a log viewer in Rust: 4 rules, a refused idea, 1 file uncommitted."""
    return (
        ThreadBuilder("claude", "/home/dev/logview", seed=301)
        .user(
            "Add a --since flag to logview so I can write `logview --since 2h app.log`. No new crates please, we keep the dependency list short."
        )
        .shell("git status -sb", "## feat/since...origin/main\n")
        .shell("ls src", "cli.rs\nfilter.rs\nmain.rs\nparse.rs\n")
        .read(
            "/home/dev/logview/src/cli.rs",
            "pub struct Args {\n    pub path: PathBuf,\n    pub level: Option<Level>,\n}\n",
        )
        .read(
            "/home/dev/logview/src/filter.rs",
            "pub fn keep(line: &Line, args: &Args) -> bool {\n    args.level.map_or(true, |l| line.level >= l)\n}\n",
        )
        .assistant(
            "`Args` is parsed by hand in cli.rs. I suggest the `humantime` crate to parse durations such as 2h."
        )
        .user(
            "No, not humantime. Write the duration parser yourself in src/duration.rs. And never use unwrap() outside of tests."
        )
        .create(
            "/home/dev/logview/src/duration.rs",
            "use std::time::Duration;\n\npub fn parse_duration(text: &str) -> Result<Duration, DurationError> {\n    todo!()\n}\n",
        )
        .todos(
            ("Write parse_duration", "in_progress"),
            ("Wire --since into filter.rs", "pending"),
            ("Document --since in README.md", "pending"),
        )
        .edit(
            "/home/dev/logview/src/duration.rs",
            "    todo!()",
            '    let (digits, unit) = text.split_at(text.len() - 1);\n    let number: u64 = digits.parse().map_err(|_| DurationError::Number)?;\n    match unit {\n        "s" => Ok(Duration::from_secs(number)),\n        "m" => Ok(Duration::from_secs(number * 60)),\n        "h" => Ok(Duration::from_secs(number * 3600)),\n        _ => Err(DurationError::Unit),\n    }',
        )
        .shell(
            "cargo test duration",
            "running 4 tests\ntest duration::tests::hours ... ok\ntest duration::tests::minutes ... ok\ntest duration::tests::empty_text ... FAILED\n\nthread 'duration::tests::empty_text' panicked at src/duration.rs:12:37:\nattempt to subtract with overflow\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n",
            101,
        )
        .assistant("An empty text underflows `text.len() - 1`. I check for it first.")
        .edit(
            "/home/dev/logview/src/duration.rs",
            "    let (digits, unit) = text.split_at(text.len() - 1);",
            "    let unit_at = text.len().checked_sub(1).ok_or(DurationError::Empty)?;\n    let (digits, unit) = text.split_at(unit_at);",
        )
        .shell(
            "cargo test duration",
            "running 4 tests\ntest result: ok. 4 passed; 0 failed; 0 ignored\n",
        )
        .shell(
            "git add src/duration.rs && git commit -m 'Parse durations such as 2h'",
            "[feat/since 7be10f4] Parse durations such as 2h\n 1 file changed, 48 insertions(+)\n create mode 100644 src/duration.rs\n",
        )
        .todos(
            ("Write parse_duration", "completed"),
            ("Wire --since into filter.rs", "in_progress"),
            ("Document --since in README.md", "pending"),
        )
        .edit(
            "/home/dev/logview/src/cli.rs",
            "    pub level: Option<Level>,",
            "    pub level: Option<Level>,\n    pub since: Option<Duration>,",
        )
        .edit(
            "/home/dev/logview/src/filter.rs",
            "    args.level.map_or(true, |l| line.level >= l)",
            "    args.level.map_or(true, |l| line.level >= l) && is_recent(line, args.since)",
        )
        .shell(
            "cargo build",
            'error[E0425]: cannot find function `is_recent` in this scope\n --> src/filter.rs:2:54\nerror: could not compile `logview` (bin "logview") due to 1 previous error\n',
            101,
        )
        .edit(
            "/home/dev/logview/src/filter.rs",
            "pub fn keep(",
            "fn is_recent(line: &Line, since: Option<Duration>) -> bool {\n    since.map_or(true, |since| line.age() <= since)\n}\n\npub fn keep(",
        )
        .shell(
            "cargo build",
            "   Compiling logview v0.4.1 (/home/dev/logview)\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 2.31s\n",
        )
        .shell(
            "cargo clippy -- -D warnings",
            "error: this `map_or` can be simplified\n --> src/filter.rs:2:5\n  = note: `-D clippy::unnecessary-map-or` implied by `-D warnings`\nerror: could not compile `logview`\n",
            101,
        )
        .user(
            "clippy has to be clean before every commit. Also lines without a timestamp should be kept, not dropped."
        )
        .edit(
            "/home/dev/logview/src/filter.rs",
            "    since.map_or(true, |since| line.age() <= since)",
            "    match (since, line.age()) {\n        (Some(since), Some(age)) => age <= since,\n        _ => true,\n    }",
        )
        .shell(
            "cargo clippy -- -D warnings",
            "    Finished `dev` profile [unoptimized + debuginfo] target(s) in 1.02s\n",
        )
        .shell("cargo test", "running 23 tests\ntest result: ok. 23 passed; 0 failed; 0 ignored\n")
        .shell(
            "git commit -am 'Filter lines by --since'",
            "[feat/since c2d9e83] Filter lines by --since\n 2 files changed, 19 insertions(+), 2 deletions(-)\n",
        )
        .shell(
            "git push -u origin feat/since",
            "To github.com:dev/logview.git\n * [new branch]      feat/since -> feat/since\n",
        )
        .todos(
            ("Write parse_duration", "completed"),
            ("Wire --since into filter.rs", "completed"),
            ("Document --since in README.md", "in_progress"),
        )
        .edit(
            "/home/dev/logview/README.md",
            "## Flags\n",
            "## Flags\n\n`--since 2h` shows the lines of the last two hours.\n",
        )
        .user(
            "Leave CHANGELOG.md alone, the release script writes it. How slow is it on a big file?"
        )
        .shell(
            "hyperfine './target/debug/logview --since 2h big.log'",
            "  Time (mean ± σ):     412.6 ms ±  8.1 ms\n",
        )
        .assistant(
            "412.6 ms on average for big.log in the debug build. README.md is changed and not committed yet."
        )
    )


def build_shop_thread() -> ThreadBuilder:
    """Return a thread about a Django shop: 4 rules, 1 test still fails, 2 files uncommitted."""
    return (
        ThreadBuilder("claude", "/home/dev/teashop", seed=302)
        .user(
            "Customers get charged twice when they double click on Pay. Can you look into it? I think it's in orders/views.py."
        )
        .shell("git branch --show-current", "fix/double-charge\n")
        .shell(
            "git log --oneline -3",
            "a91c3d2 Show VAT in the basket\n5f0e7b8 Upgrade to Django 5.1\n12ab90c Add gift cards\n",
        )
        .read(
            "/home/dev/teashop/orders/views.py",
            "def pay(request, order_id):\n    order = get_object_or_404(Order, pk=order_id)\n    charge(order)\n    order.state = 'paid'\n    order.save()\n    return redirect('thanks')\n",
        )
        .read(
            "/home/dev/teashop/orders/models.py",
            "class Order(models.Model):\n    state = models.CharField(max_length=20)\n    total = models.DecimalField(max_digits=8, decimal_places=2)\n",
        )
        .assistant(
            "`pay` does not lock the order. I would use select_for_update within transaction.atomic; or a Redis lock."
        )
        .user(
            "no redis. We run on Postgres only, use the row lock. Don't run migrations against the staging database, I do that myself on Fridays."
        )
        .create(
            "/home/dev/teashop/orders/tests/test_pay.py",
            "class PayTests(TransactionTestCase):\n    def test_double_click_charges_once(self):\n        ...\n",
        )
        .shell(
            "python manage.py test orders.tests.test_pay",
            "F\n======\nFAIL: test_double_click_charges_once (orders.tests.test_pay.PayTests)\nAssertionError: 2 != 1\n\nRan 1 test in 0.412s\n\nFAILED (failures=1)\n",
            1,
        )
        .todos(
            ("Reproduce the double charge in a test", "completed"),
            ("Lock the order row in pay()", "in_progress"),
            ("Add an idempotency key to charges", "pending"),
            ("Refund the 14 affected customers", "pending"),
        )
        .edit(
            "/home/dev/teashop/orders/views.py",
            "    order = get_object_or_404(Order, pk=order_id)\n    charge(order)\n",
            "    with transaction.atomic():\n        order = get_object_or_404(Order.objects.select_for_update(), pk=order_id)\n        if order.state == 'paid':\n            return redirect('thanks')\n        charge(order)\n",
        )
        .shell("python manage.py test orders.tests.test_pay", ".\nRan 1 test in 0.398s\n\nOK\n")
        .shell(
            "python manage.py test orders",
            "..................................\nRan 34 tests in 6.120s\n\nOK\n",
        )
        .shell(
            "git add orders && git commit -m 'Lock the order while it is paid'",
            "[fix/double-charge e4417aa] Lock the order while it is paid\n 2 files changed, 31 insertions(+), 3 deletions(-)\n",
        )
        .user(
            "Great. For the idempotency key: store it as a UUIDField on Payment, and keep amounts as Decimal everywhere, no floats."
        )
        .read(
            "/home/dev/teashop/payments/models.py",
            "class Payment(models.Model):\n    order = models.ForeignKey(Order, on_delete=models.CASCADE)\n    amount = models.DecimalField(max_digits=8, decimal_places=2)\n",
        )
        .edit(
            "/home/dev/teashop/payments/models.py",
            "    amount = models.DecimalField",
            "    idempotency_key = models.UUIDField(default=uuid.uuid4, unique=True)\n    amount = models.DecimalField",
        )
        .shell(
            "python manage.py makemigrations payments",
            "Migrations for 'payments':\n  payments/migrations/0007_payment_idempotency_key.py\n    + Add field idempotency_key to payment\n",
        )
        .assistant(
            "A unique field with a default gives each existing row the same value; the migration must fill the rows one by one. I split it in three operations."
        )
        .edit(
            "/home/dev/teashop/payments/migrations/0007_payment_idempotency_key.py",
            "unique=True",
            "null=True",
        )
        .shell(
            "python manage.py migrate",
            "Operations to perform:\n  Apply all migrations: orders, payments\nRunning migrations:\n  Applying payments.0007_payment_idempotency_key... OK\n",
        )
        .shell(
            "git push origin fix/double-charge",
            "remote: error: GH006: Protected branch update failed\nerror: failed to push some refs to 'github.com:dev/teashop.git'\n",
            1,
        )
        .user(
            "Right, pushing is blocked until the review. Please write commit messages in the imperative, and always ask me before you touch the stripe webhook."
        )
        .edit(
            "/home/dev/teashop/payments/services.py",
            "def charge(order):",
            "def charge(order, key):",
        )
        .shell(
            "python manage.py test",
            "E...\nERROR: test_refund_partial (payments.tests.test_refunds.RefundTests)\nTypeError: charge() missing 1 required positional argument: 'key'\n\nRan 87 tests in 14.702s\n\nFAILED (errors=1)\n",
            1,
        )
        .todos(
            ("Reproduce the double charge in a test", "completed"),
            ("Lock the order row in pay()", "completed"),
            ("Add an idempotency key to charges", "in_progress"),
            ("Refund the 14 affected customers", "pending"),
        )
        .user("How do the 14 customers get their money back?")
        .assistant("With `payments.services.refund`, after the key is in. I have not started it.")
        .shell(
            "git status --short",
            " M payments/models.py\n M payments/services.py\n?? payments/migrations/0007_payment_idempotency_key.py\n",
        )
        .user("ok. cap the refunds at 50 EUR each, anything above goes through Marta.")
        .assistant("Noted: refunds up to 50 EUR. Next I pass the key in test_refunds.py.")
    )


def build_frontend_thread() -> ThreadBuilder:
    """Return a thread about a TypeScript frontend: 5 rules, the last build passes."""
    return (
        ThreadBuilder("claude", "/home/dev/planner", seed=303)
        .user(
            "Hi! I want a dark mode for the planner. The toggle should sit in the header next to the avatar and the choice has to survive a reload."
        )
        .shell("git checkout -b ui/dark-mode", "Switched to a new branch 'ui/dark-mode'\n")
        .shell(
            "cat package.json",
            '{"name": "planner", "version": "2.8.0", "scripts": {"test": "vitest run", "build": "vite build", "lint": "eslint src"}}\n',
        )
        .read(
            "/home/dev/planner/src/components/Header.tsx",
            "export function Header() {\n  return <header><Avatar /></header>;\n}\n",
        )
        .read(
            "/home/dev/planner/src/styles/tokens.css", ":root { --bg: #ffffff; --fg: #1b1b1f; }\n"
        )
        .assistant(
            "I propose a ThemeContext, CSS variables in tokens.css and localStorage under `planner-theme`. Or shall I use styled-components?"
        )
        .user(
            "CSS variables, yes. No styled-components. We use pnpm here, never npm or yarn. And only named exports, default exports are banned in this repo."
        )
        .todos(
            ("Create ThemeContext", "in_progress"),
            ("Add the toggle to the header", "pending"),
            ("Dark tokens", "pending"),
            ("Playwright test for reload", "pending"),
        )
        .create(
            "/home/dev/planner/src/theme/ThemeContext.tsx",
            "export const ThemeContext = createContext<Theme>('light');\nexport function ThemeProvider({ children }: Props) {\n  const [theme, setTheme] = useState<Theme>(readStoredTheme());\n}\n",
        )
        .create(
            "/home/dev/planner/src/components/ThemeToggle.tsx",
            "export function ThemeToggle() {\n  const { theme, setTheme } = useTheme();\n}\n",
        )
        .edit(
            "/home/dev/planner/src/components/Header.tsx",
            "<header><Avatar /></header>",
            "<header><ThemeToggle /><Avatar /></header>",
        )
        .shell(
            "pnpm test",
            " FAIL  src/components/Header.test.tsx > Header > shows the avatar\nError: useTheme must be used within ThemeProvider\n\n Test Files  1 failed | 11 passed (12)\n      Tests  1 failed | 57 passed (58)\n",
            1,
        )
        .edit(
            "/home/dev/planner/src/components/Header.test.tsx",
            "render(<Header />)",
            "render(<ThemeProvider><Header /></ThemeProvider>)",
        )
        .shell("pnpm test", " Test Files  12 passed (12)\n      Tests  58 passed (58)\n")
        .edit(
            "/home/dev/planner/src/styles/tokens.css",
            ":root { --bg: #ffffff; --fg: #1b1b1f; }",
            ":root { --bg: #ffffff; --fg: #1b1b1f; }\n[data-theme='dark'] { --bg: #000000; --fg: #e6e6ea; }",
        )
        .shell(
            "git add -A && git commit -m 'feat: dark mode toggle'",
            "[ui/dark-mode 3d70b15] feat: dark mode toggle\n 5 files changed, 96 insertions(+), 4 deletions(-)\n",
        )
        .user(
            "pure black is too harsh, take #16161a for the background. The contrast must stay at 7:1 or better."
        )
        .edit("/home/dev/planner/src/styles/tokens.css", "--bg: #000000", "--bg: #16161a")
        .shell(
            "pnpm lint",
            "/home/dev/planner/src/theme/ThemeContext.tsx\n  14:7  error  'stored' is never reassigned. Use 'const' instead  prefer-const\n\n✖ 1 problem (1 error, 0 warnings)\n",
            1,
        )
        .edit("/home/dev/planner/src/theme/ThemeContext.tsx", "let stored", "const stored")
        .shell("pnpm lint", "")
        .shell(
            "pnpm build",
            "vite v5.4.2 building for production...\n✓ 412 modules transformed.\ndist/assets/index-BX3k.js  188.42 kB │ gzip: 61.03 kB\n✓ built in 3.87s\n",
        )
        .shell(
            "git commit -am 'fix: softer dark background'",
            "[ui/dark-mode 94fe2c8] fix: softer dark background\n 2 files changed, 2 insertions(+), 2 deletions(-)\n",
        )
        .background("pnpm dev --port 5174", "running")
        .todos(
            ("Create ThemeContext", "completed"),
            ("Add the toggle to the header", "completed"),
            ("Dark tokens", "completed"),
            ("Playwright test for reload", "in_progress"),
        )
        .create(
            "/home/dev/planner/e2e/theme.spec.ts",
            "test('the theme survives a reload', async ({ page }) => {\n  await page.goto('/');\n});\n",
        )
        .shell(
            "pnpm exec playwright test e2e/theme.spec.ts",
            "Running 1 test using 1 worker\n  ✘  1 e2e/theme.spec.ts:3:1 › the theme survives a reload (30.0s)\nError: page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:5173/\n  1 failed\n",
            1,
        )
        .assistant("The spec uses port 5173, the dev server runs on 5174. I set baseURL.")
        .user(
            "5173 is taken by my other project, so 5174 is right. Please don't open a pull request yet, design wants to look first."
        )
        .edit(
            "/home/dev/planner/playwright.config.ts",
            "http://localhost:5173",
            "http://localhost:5174",
        )
        .shell(
            "pnpm exec playwright test e2e/theme.spec.ts",
            "Running 1 test using 1 worker\n  ✓  1 e2e/theme.spec.ts:3:1 › the theme survives a reload (1.9s)\n  1 passed (3.2s)\n",
        )
        .user("Does it follow the system setting on the first visit?")
        .assistant(
            "Not yet. `readStoredTheme` falls back to 'light'; it could ask `prefers-color-scheme`."
        )
        .user("Then do that, but an explicit choice wins over the system setting.")
        .read(
            "/home/dev/planner/src/theme/readStoredTheme.ts",
            "export function readStoredTheme(): Theme {\n  return (localStorage.getItem('planner-theme') as Theme) ?? 'light';\n}\n",
        )
        .assistant("I write the fallback now.")
    )


class PlantedThread(Struct, frozen=True):
    """A thread, with sentences that are false and true of it."""

    build: Callable[[], ThreadBuilder]
    false: Sequence[str]
    true: Sequence[str]


THREADS = {
    "rust": PlantedThread(build_rust_thread, RUST_FALSE, RUST_TRUE),
    "shop": PlantedThread(build_shop_thread, SHOP_FALSE, SHOP_TRUE),
    "frontend": PlantedThread(build_frontend_thread, FRONTEND_FALSE, FRONTEND_TRUE),
}


def compact(name: str, claims: Sequence[str], folder: Path) -> RestoreBlock:
    """Return the block for a thread whose summary makes some claims."""
    lines = "\n".join(f"- {claim}" for claim in claims)
    return _build_block(THREADS[name].build(), f"## Current state\n{lines}", folder)


def compact_message(message: str, folder: Path) -> RestoreBlock:
    """Return the block for a short thread with a message of the user."""
    thread = ThreadBuilder("claude").user("Hello, let us work on the importer.")
    thread.shell("git status -sb", "## main\n").user(message).assistant("Fine.")
    return _build_block(thread.shell("ls", "a\n"), "We worked on the importer.", folder)


def _build_block(thread: ThreadBuilder, summary: str, folder: Path) -> RestoreBlock:
    path = thread.compaction(summary).write(folder / "thread.jsonl")
    compaction = find_last_compaction(harnesses.get_harness("claude").read(path))
    assert compaction is not None
    return build_block(compaction)
