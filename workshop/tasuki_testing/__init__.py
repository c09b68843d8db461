"""Tools for testing against tasuki: threads, a model that answers from a script, contracts.

`check_harness` checks a harness adapter against every contract that tasuki relies on;
`ThreadBuilder` writes threads in the formats of the built-in harnesses, or in your own
`Format`.
"""

from tasuki_testing.builder import ThreadBuilder, story
from tasuki_testing.conformance import check_contract, check_harness
from tasuki_testing.format_base import Clock, Format
from tasuki_testing.forms import CONTRACTS, Form, JsonDocument, JsonLines, Trial

__all__ = [
    "CONTRACTS", "Clock", "Form", "Format", "JsonDocument", "JsonLines", "ThreadBuilder", "Trial",
    "check_contract", "check_harness", "story",
]  # fmt: skip
