"""Where the parts of the checkout are that tests use."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
FIXTURES = TESTS / "fixtures"
"""Captured threads and hooks, by harness."""
PROGRAMS = TESTS / "programs"
"""Programs that tests run as processes of their own."""
SUPPORT = TESTS / "support"
IMPORTABLE = (str(TESTS), str(SUPPORT))
"""What a program under test needs on its path to import `fakes` and the modules of `support`."""
