"""What others need to test against tasuki: threads, a model that answers from a script, contracts.

`check_harness` holds a harness adapter to every contract that tasuki relies on; `ThreadBuilder`
writes threads in the formats of the built-in harnesses, or in a `Format` of your own.
"""

from tasuki.testing.conformance import check_contract, check_harness
from tasuki.testing.forms import Form, JsonDocument, JsonLines
from tasuki.testing.thread_formats import Clock, Format
from tasuki.testing.threads import ThreadBuilder, story
from tasuki.testing.trial import CONTRACTS, Trial

__all__ = [
    "CONTRACTS",
    "Clock",
    "Form",
    "Format",
    "JsonDocument",
    "JsonLines",
    "ThreadBuilder",
    "Trial",
    "check_contract",
    "check_harness",
    "story",
]
