"""The real programs: how each is set up in a world, asked once without a screen, and started.

Keys are dummies, the only address is the scripted model's, nothing is looked up or reported.
Permissions are as narrow as each program allows: its model may read one file of the project.
"""

import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import npm_programs
from fakes.model_server import ScriptedCall

if TYPE_CHECKING:
    from conftest import World

READING = "cat notes.txt"
"""The one command that a model runs."""


def digest(content: bytes) -> str:
    """A digest to compare contents by."""
    return hashlib.sha256(content).hexdigest()


class Program:
    """One real program, by the name of its harness."""

    name: ClassVar[str]
    env: ClassVar[Mapping[str, str]] = {}
    tool: ClassVar[str] = "bash"
    """The tool of its model that runs a command."""
    argument: ClassVar[str] = "command"
    more: ClassVar[Mapping[str, Any]] = {}
    """What else a call of the tool needs."""
    arguments: ClassVar[tuple[str, ...]] = ()
    """What a successor is started with: `tasuki handoff … -- ARGUMENTS`."""
    pasted: ClassVar[str] = ""
    """What its input shows in place of a long paste."""
    threads: ClassVar[str]
    """Pattern of the files in which it keeps its threads, below the home."""

    def call(self) -> ScriptedCall:
        """The model's call that reads the notes."""
        return ScriptedCall(self.tool, {self.argument: READING, **self.more})

    def prepare(self, world: "World") -> None:
        """Set it up: past its first-start questions, talking to the scripted model."""
        self.configure(world)
        world.set(**self.env)
        world.program(self.name, npm_programs.command(self.name))

    def configure(self, world: "World") -> None:
        """Write its configuration, and set what depends on the world."""
        raise NotImplementedError

    def asked(self, prompt: str) -> list[str]:
        """The command that answers one prompt without a screen."""
        return [self.name, "-p", prompt]

    def recorded(self, home: Path) -> dict[str, str]:
        """What it has recorded, by name, with a digest: the files of its threads."""
        return {str(path): digest(path.read_bytes()) for path in self.files(home)}

    def recorded_rows(self, home: Path) -> dict[str, str]:
        """The same where the program itself may have gone on in other threads since."""
        return self.recorded(home)

    def files(self, home: Path) -> list[Path]:
        """The files that hold its threads."""
        return [path for path in home.glob(self.threads) if path.is_file()]


class Claude(Program):
    """Claude Code; `acceptEdits` confines it to the project."""

    name = "claude"
    threads = ".claude/projects/*/*.jsonl"
    tool = "Bash"
    more: ClassVar = {"description": "Read the notes"}
    env: ClassVar = {
        "ANTHROPIC_AUTH_TOKEN": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }

    def configure(self, world: "World") -> None:
        trusted = {str(world.project): {"hasTrustDialogAccepted": True}}
        seen = {"hasCompletedOnboarding": True, "hasSeenAutoDefaultNudge": True, "theme": "dark"}
        world.write(".claude.json", {**seen, "projects": trusted})
        permissions = {"defaultMode": "acceptEdits", "allow": ["Read", f"Bash({READING})"]}
        settings = {"permissions": permissions, "promptSuggestionEnabled": False}
        world.write(".claude/settings.json", settings)
        world.set(ANTHROPIC_BASE_URL=world.model.url)


CODEX_CONFIG = """\
model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 1
stream_max_retries = 1
[projects."{project}"]
trust_level = "trusted"
[tui]
screen_reader_detection_done = true
[tui.model_availability_nux]
"gpt-6.1-sol" = 1
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
"""


class Codex(Program):
    """Codex, without its background server, which outlives the program."""

    name = "codex"
    threads = ".codex/sessions/*/*/*/*.jsonl"
    tool = "exec_command"
    argument = "cmd"
    pasted = "[Pasted Content"
    env: ClassVar = {"LOCAL_KEY": "dummy"}
    arguments = ("--no-daemon",)

    def configure(self, world: "World") -> None:
        config = CODEX_CONFIG.format(url=world.model.url, project=world.project)
        world.write(".codex/config.toml", config)

    def asked(self, prompt: str) -> list[str]:
        return ["codex", "exec", "--sandbox", "read-only", prompt]


class Pi(Program):
    """pi; it asks for no permissions."""

    name = "pi"
    threads = ".pi/agent/sessions/*/*.jsonl"
    env: ClassVar = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}

    def configure(self, world: "World") -> None:
        compat = {"supportsDeveloperRole": False, "supportsReasoningEffort": False}
        provider = {
            "baseUrl": f"{world.model.url}/v1",
            "api": "openai-completions",
            "apiKey": "dummy-key",
            "compat": compat,
            "models": [{"id": "scripted", "contextWindow": 128000, "maxTokens": 8000}],
        }
        settings = {"defaultProvider": "local", "defaultModel": "scripted", "quietStartup": True}
        world.write(".pi/agent/models.json", {"providers": {"local": provider}})
        world.write(".pi/agent/settings.json", {**settings, "enableInstallTelemetry": False})


OMP_MODELS = """providers:
  local:
    baseUrl: {url}/v1
    api: openai-completions
    apiKey: dummy-key
    compat: {{supportsDeveloperRole: false, supportsReasoningEffort: false}}
    models:
      - {{id: scripted, name: scripted, contextWindow: 128000, maxTokens: 8000}}
"""
OMP_CONFIG = """modelRoles: {default: local/scripted, smol: local/scripted, slow: local/scripted, tiny: local/scripted}
setupVersion: 999
startup: {setupWizard: false, checkUpdate: false, quiet: true}
"""


class Omp(Program):
    """oh-my-pi, past its sign-in wizard."""

    name = "omp"
    threads = ".omp/agent/sessions/*/*.jsonl"
    env: ClassVar = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}
    arguments = ("--no-title",)

    def configure(self, world: "World") -> None:
        world.write(".omp/agent/models.yml", OMP_MODELS.format(url=world.model.url))
        world.write(".omp/agent/config.yml", OMP_CONFIG)


GEMINI_POLICY = f"""\
[[rule]]
toolName = "run_shell_command"
commandPrefix = "{READING}"
decision = "allow"
priority = 100
"""


class Gemini(Program):
    """Gemini CLI. Its clean-up of old sessions would delete threads, so it is off."""

    name = "gemini"
    pasted = "[Pasted Text:"
    threads = ".gemini/tmp/*/chats/*"
    tool = "run_shell_command"
    more: ClassVar = {"description": "Read the notes"}
    env: ClassVar = {"GEMINI_API_KEY": "dummy-key"}

    def configure(self, world: "World") -> None:
        settings = {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "sessionRetention": {"enabled": False},
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ide": {"enabled": False, "hasSeenNudge": True},
            "ui": {"hideTips": True, "hideBanner": True},
            "model": {"name": "gemini-2.5-pro"},
        }
        world.write(".gemini/settings.json", settings)
        world.write(".gemini/policies/notes.toml", GEMINI_POLICY)
        world.set(GOOGLE_GEMINI_BASE_URL=world.model.url)

    def recorded_rows(self, home: Path) -> dict[str, str]:
        """All lines but the one that it adds to the newest thread when it is started again.

        That line holds a sentence about the thread, for its own list.
        """
        lines = {path: path.read_bytes().splitlines() for path in self.files(home)}
        return {
            f"{path.name}:{number}": digest(line)
            for path, all in lines.items()
            for number, line in enumerate(all)
            if not line.startswith(b'{"$set":{"summary"')
        }


class Opencode(Program):
    """opencode, which asks before every other command and every edit."""

    name = "opencode"
    pasted = "[Pasted ~"
    threads = ".local/share/opencode/opencode.d*[bl]"  # with the log, without the index
    more: ClassVar = {"description": "Read the notes"}
    env: ClassVar = {
        f"OPENCODE_DISABLE_{what}": "1"
        for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    }

    def configure(self, world: "World") -> None:
        limit = {"context": 128000, "output": 8000}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Local",
            "options": {"baseURL": f"{world.model.url}/v1", "apiKey": "dummy-key"},
            "models": {"scripted": {"name": "Scripted", "tool_call": True, "limit": limit}},
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": "local/scripted",
            "small_model": "local/scripted",
            "provider": {"local": provider},
            "permission": {"edit": "ask", "bash": {"*": "ask", READING: "allow"}},
        }
        world.write(".config/opencode/opencode.json", config)
        world.set(npm_config_registry=world.model.url)  # it would install a package for plugins

    def asked(self, prompt: str) -> list[str]:
        return ["opencode", "run", prompt]

    def recorded_rows(self, home: Path) -> dict[str, str]:
        """Every row of each session; read from a copy, for a reader leaves traces in the index."""
        with tempfile.TemporaryDirectory() as folder:
            for path in self.files(home):
                shutil.copy(path, folder)
            with closing(sqlite3.connect(Path(folder) / "opencode.db")) as database:
                return {
                    f"{table} {id}": digest(repr(row).encode())
                    for table in ("session", "message", "part")
                    for id, *row in database.execute(f"select id, * from {table}")
                }


class Copilot(Program):
    """Copilot CLI, without a login, with a model of the user's own."""

    name = "copilot"
    pasted = "[Paste #"
    threads = ".copilot/session-state/*/*"
    more: ClassVar = {"description": "Read the notes"}
    env: ClassVar = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "dummy-key",
        "COPILOT_MODEL": "scripted",
        "COPILOT_AUTO_UPDATE": "false",
    }

    def configure(self, world: "World") -> None:
        world.write(".copilot/config.json", {"trustedFolders": [str(world.project)]})
        world.set(COPILOT_PROVIDER_BASE_URL=f"{world.model.url}/v1")

    def asked(self, prompt: str) -> list[str]:
        return ["copilot", "--allow-tool", f"shell({READING})", "-p", prompt]


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (Claude(), Codex(), Pi(), Omp(), Gemini(), Opencode(), Copilot())
}
