"""What `tasuki doctor` says of kept copies, and of harnesses that delete their threads."""

import shlex

from msgspec import Struct

from tasuki.config.settings import Settings
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.threads.kept.policy import KeepFailure, find_failure, get_failure_file
from tasuki.threads.kept.store import KeptStore


class KeptSummary(Struct, frozen=True):
    """The setting `keep_threads`, and how many copies there are, with their bytes on disk.

    `failure` is the last one, None where a copy of the same thread succeeded since.
    """

    setting: str
    count: int
    bytes: int
    failure: KeepFailure | None = None


def summarize_copies(settings: Settings) -> KeptSummary:
    """Count the kept copies."""
    copies = KeptStore().list_copies()
    return KeptSummary(
        settings.keep_threads, len(copies), sum(copy.bytes for copy in copies), find_failure()
    )


def list_failures(kept: KeptSummary | None) -> list[tuple[str, str]]:
    """List why the last copy that failed did, as a sentence, and what to do about it."""
    if kept is None or kept.failure is None:
        return []
    failure, file = kept.failure, shlex.quote(str(get_failure_file()))
    return [
        (
            f"No copy of the thread {failure.path} could be kept ({failure.at}): {failure.reason}",
            f"fix that; the note goes with the next copy, or: rm {file}",
        )
    ]


def describe_clean_up(harness: Harness, settings: Settings) -> str:
    """Describe in a sentence that a harness deletes its threads, sooner than copies are kept.

    It is empty where it does not, as far as its own settings say.
    """
    find_days = getattr(harnesses.get_integration(harness), "find_retention_days", None)
    days = find_days() if find_days else None
    keep_days = settings.keep_threads_days
    if days is None or (keep_days and days >= keep_days):
        return ""
    span = f"{days * 24:.0f} hours" if days < 1 else "1 day" if days == 1 else f"{days:.0f} days"
    sentence = f"{harness.title} deletes threads after {span}."
    if settings.keep_threads == "off":
        return f"{sentence} tasuki keeps no copies; the setting keep_threads changes that."
    kept = "of all threads" if settings.keep_threads == "all" else "of those handed off"
    return f"{sentence} Copies {kept} are kept."
