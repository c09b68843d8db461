"""What tasuki does at a harness's own compaction, on one screen.

    compacting   name what the summary must keep       → more words for the harness's request
    summarized   keep the summary until it is in place
    compacted    check it, and restore what is missing → a block for the model

Where the user wants it and the harness allows it, tasuki's own summary takes the place of the
harness's. No error reaches the harness: its own compaction goes on, and `tasuki doctor` tells
why.
"""

import time
from pathlib import Path

from msgspec.structs import replace

from tasuki.compaction.block import SUMMARY_TITLE, build_block, build_keep_list
from tasuki.compaction.memory import CompactionMemory, CompactionReport, write_report
from tasuki.compaction.moment import build_coming_compaction, find_last_compaction
from tasuki.config.settings import LoadedSettings
from tasuki.draft.facts.git import GitProbe
from tasuki.draft.text.split import count_tokens
from tasuki.errors import TasukiError
from tasuki.harness.integration import HookAnswer, HookCall
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.cache import CachedThread
from tasuki.model import Thread


def answer_compaction(harness: Harness, call: HookCall, loaded: LoadedSettings) -> HookAnswer:
    """Return the text for the model or for its summary, if there is one. Raises nothing."""
    if loaded.settings.compaction == "off":
        return HookAnswer()
    memory = CompactionMemory(harness.name, call.thread_id or call.path)
    try:
        return _answer(harness, call, loaded, memory)
    except TasukiError as error:
        problem = str(error)
    # A hook is a boundary: the harness goes on, and `tasuki doctor` shows the error.
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    write_report(harness.name, CompactionReport(time.time(), memory.thread, problem=problem))
    return HookAnswer()


def _answer(
    harness: Harness, call: HookCall, loaded: LoadedSettings, memory: CompactionMemory
) -> HookAnswer:
    path = Path(call.path)
    if call.kind == "summarized":
        memory.keep("summary", call.text)
        return HookAnswer()
    if call.can_replace and loaded.settings.compaction == "replace":
        from tasuki.compaction.replacement import write_summary  # not needed to restore

        summary = write_summary(harness, path, loaded)
        tokens = count_tokens(summary)
        report = CompactionReport(time.time(), memory.thread, tokens=tokens, replaced=True)
        write_report(harness.name, report)
        return HookAnswer(context=summary, replaces=True)
    if call.kind == "compacting":
        memory.keep("instructions", call.text)
        # What is said at a compaction that the user asked for stays in view afterwards.
        words = "" if call.by_user else build_keep_list(_read(harness, path, loaded))
        return HookAnswer(context=words)
    return HookAnswer(context=_restore(harness, call, loaded, memory))


def _read(harness: Harness, path: Path, loaded: LoadedSettings) -> Thread:
    return CachedThread(harness, path, is_kept=loaded.settings.cache).thread


def _restore(
    harness: Harness, call: HookCall, loaded: LoadedSettings, memory: CompactionMemory
) -> str:
    if call.messages and (given := memory.read_block(call.text)) is not None:
        return given
    thread = _read(harness, Path(call.path), loaded)
    instructions, kept = memory.take("instructions"), memory.take("summary")
    compaction = find_last_compaction(thread, instructions) if call.is_recorded else None
    if compaction is None:  # It is in the payload, or in the memory.
        coming = build_coming_compaction(thread, call.text or kept, instructions)
        compaction = replace(coming, in_view=f"{coming.in_view}\n{call.in_view}")
    last = thread.entries[-1].ref if thread.entries else 0
    place = call.compaction or str(compaction.ref or last)
    is_own = compaction.summary.startswith(SUMMARY_TITLE)
    is_repeated = not call.messages and not memory.is_first_block(place)
    if is_own or is_repeated:
        return ""
    block = build_block(compaction, GitProbe(thread.cwd).read_revision())
    if call.messages:
        memory.keep_block(call.text, block.text)
    tokens, wrong = count_tokens(block.text), len(block.corrections)
    report = CompactionReport(time.time(), memory.thread, tokens, wrong, len(block.rules))
    write_report(harness.name, report)
    return block.text
