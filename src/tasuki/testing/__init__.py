"""What others need to test against tasuki: threads, a model that answers from a script, contracts.

`check_harness` holds a harness adapter to every contract that tasuki relies on; `ThreadBuilder`
writes threads in the formats of the built-in harnesses.
"""

from tasuki.testing.conformance import check_contract, check_harness
from tasuki.testing.contracts import CONTRACTS, Trial
from tasuki.testing.threads import ThreadBuilder, story

__all__ = ["CONTRACTS", "ThreadBuilder", "Trial", "check_contract", "check_harness", "story"]
