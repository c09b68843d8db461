"""Find sessions of Copilot CLI, and read what a list of them shows."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.files import find_program_folder
from tasuki.harness.copilot.format import DATA, LINE, CopilotData, choose_name, read_workspace
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.heads import HeadReader, parse_time
from tasuki.harness.reading.jsonl import decode_line, decode_part, list_thread_files, scan_folder
from tasuki.harness.reading.speakers import Evidence, extract_first_words
from tasuki.patterns import compile_pattern

_SESSION = compile_pattern(rb'\A\s*\{"type": ?"session\.start", ?"data": ?\{"sessionId": ?"')
_SAID = compile_pattern(rb'\A\{"type": ?"(?:user|assistant)\.message"')
_OF_AGENT = compile_pattern(rb'\},"agentId":"[^"]*","id":"[^"]*"')


def get_home() -> Path:
    """Return the folder of Copilot CLI; `COPILOT_HOME` moves it."""
    return find_program_folder("COPILOT_HOME", ".copilot")


class CopilotHead(HeadReader):
    """What both ends of a session's event log show."""

    harness = "copilot"
    begins = _SESSION
    head_bytes = 48 << 10

    @staticmethod
    def list_files() -> Iterator[ThreadFile]:
        """Yield the event logs of all sessions: only their heads name the folder."""
        for folder in scan_folder(get_home() / "session-state"):
            if os.path.isdir(folder.path):
                yield from list_thread_files(
                    e for e in scan_folder(folder.path) if e.name == "events.jsonl"
                )

    def take_start(self, line: bytes) -> None:
        if not self.id and b'"session.start"' in line[:60]:
            if event := decode_line(LINE, line):
                start = decode_part(DATA, event.data, CopilotData())
                self.id, self.cwd = start.sessionId, start.place.cwd
        elif _SAID.match(line) and not _OF_AGENT.search(line):
            self.messages += 1
            if self.words or b'"user.message"' not in line[:60]:
                return
            event = decode_line(LINE, line)
            if event and event.type == "user.message" and not event.agentId:
                message = decode_part(DATA, event.data, CopilotData())
                evidence: Evidence = "program" if message.is_by_program else ""
                self.words = extract_first_words(message.content or "", evidence)

    def take_end(self, line: bytes) -> None:
        is_title = not self.name and b'"session.title_changed"' in line[:60]
        is_usage = self.context is None and b'"session.usage_record"' in line[:60]
        if (self.time and not (is_title or is_usage)) or (event := decode_line(LINE, line)) is None:
            return
        self.time = self.time or parse_time(event.timestamp)
        if is_title:
            self.name = decode_part(DATA, event.data, CopilotData()).title or ""
        elif is_usage and not event.agentId:
            usage = decode_part(DATA, event.data, CopilotData()).usage
            if usage and usage.inputTokens > 0:
                self.context = usage.inputTokens + usage.outputTokens
                self.window = usage.maxPromptTokens

    def finish(self) -> bool:
        fields = read_workspace(self.file.path.parent)
        self.folders[self.cwd] = None
        self.cwd = fields.get("cwd") or self.cwd
        self.name = choose_name(fields, self.words) or self.name
        return super().finish()
