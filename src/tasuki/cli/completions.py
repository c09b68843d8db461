"""What a shell offers for an argument: names of harnesses, ids of threads and handoffs.

A shell waits for this while somebody types: all harnesses are offered, but a second later
nothing more is looked for in files, and an error is nothing to offer. Nor is a word that needs quotes:
bash inserts it as it is, and an id may be any text.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from tasuki.errors import HandoffNotFound
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECONDS = 1.0
NEWEST = 30
"""How many threads and handoffs are offered."""
SHORT = 8
"""Digits of an id that are offered."""
Offer = Iterator[tuple[str, str]]
"""Words, each with what a shell shows beside it."""
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _offer(
    *sources: Callable[[], Offer],
    known: Callable[[], Offer] = lambda: iter(()),
    files: bool = False,
) -> Complete:
    """Build the function that click calls; with `files`, a shell completes a path itself.

    What is `known` is offered whole, however slow the machine is.
    """

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        if files and (incomplete.startswith((".", "~")) or "/" in incomplete):
            return [CompletionItem(incomplete, type="file")]
        found: dict[str, str] = {}
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for number, source in enumerate((known, *sources)):
                if number == 1:
                    signal.setitimer(signal.ITIMER_REAL, SECONDS)
                for word, help in source():
                    if word.startswith(incomplete) and quote(word) == word:
                        found.setdefault(word, help)
        except (Exception, KeyboardInterrupt):  # An error, or the time is over.
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return [CompletionItem(word, help=help) for word, help in found.items()]

    return complete


def _list_harnesses(*, with_formats: bool = True) -> Offer:
    """List the harnesses; without mere formats those whose program can be started."""
    from tasuki.harness import registry as harnesses

    for name in harnesses.list_names():
        if (harness := harnesses.get_harness(name)).can_start or with_formats:
            yield name, harness.title


def _list_threads() -> Offer:
    from tasuki.cli.output import make_visible
    from tasuki.threads import catalog

    for head in catalog.list_heads_near(None, Path.cwd(), NEWEST)[0]:
        yield head.id, make_visible(f"{head.harness}: {head.name or head.first_words}")[:60]


def _list_handoffs() -> Offer:
    from tasuki.vault import Vault

    vault = Vault()
    for id in vault.list_newest_ids(NEWEST):
        with suppress(HandoffNotFound):  # It cannot be read.
            yield id[:SHORT], shorten_to_line(vault.get(id).goal.shown, 60)


complete_harness = _offer(known=_list_harnesses)
complete_program = _offer(known=partial(_list_harnesses, with_formats=False))
complete_handoff = _offer(_list_handoffs)
complete_lineage = _offer(_list_handoffs, _list_threads)
complete_source = _offer(_list_threads, known=_list_harnesses, files=True)
complete_thread = _offer(_list_handoffs, _list_threads, known=_list_harnesses, files=True)
