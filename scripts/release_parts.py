"""The parts of a release that are not the Python package: plug-ins, npm packages and entries of registries.

All of them are made from what `tasuki install` writes, so none can differ from it.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tasuki.harness import registry
from tasuki.harness.claude.hooks import PLUGIN_COMMAND
from tasuki.harness.integration import Addition, JsonEntry, OwnFile

TASUKI = ("tasuki",)
"""The command that runs tasuki: a package finds it on the PATH."""
SOURCE = re.compile(
    r"(?m)^(?:<!-- Written by `tasuki install`.*-->\n\n|# Written by `tasuki install`.*\n)"
)
"""The line that says who wrote a file, which is another one here."""
INSTALLED = re.compile(r"Written by `tasuki install`; `tasuki uninstall[ a-z]*` removes it\. ")
FOLDERS = frozenset(("commands", "command", "skills", "extensions", "plugin"))
"""Where the harnesses look for files; all before them is the harness's own folder."""
NAMED = {"/handoff": PLUGIN_COMMAND}
"""What the command is called in Claude Code's plug-in."""
TOOLS = {"mcpServers": {"tasuki": {"command": "tasuki", "args": ["mcp"]}}}
SHORT = "Hands a coding agent's work to a fresh session, every claim checked against the thread."
"""At most 100 characters, as the MCP registry wants it."""
README = """\
# tasuki for {title}

{what}

Install it: `{install}`

It runs `tasuki`, which must be on the PATH: `uv tool install 'tasuki[review,mcp]'`. Use this or
`tasuki install {name}`, not both. More: {home}
"""
INSTALL = {
    "claude": "/plugin install tasuki --marketplace {owner}/tasuki-plugins",
    "codex": "codex plugin marketplace add {owner}/tasuki-plugins && codex plugin add tasuki@tasuki",
    "pi": "pi install npm:tasuki-pi",
    "omp": "omp plugin install tasuki-omp",
    "opencode": '"plugin": ["tasuki-opencode"] in opencode.json',
}
"""How each is installed; `plugins/` is published as the repository `tasuki-plugins`."""
ICON = """\
<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
<path d="M1 5h9M7 2l3 3-3 3M15 11H6M9 8l-3 3 3 3" fill="none" stroke="currentColor" stroke-width="1.5"/>
</svg>
"""
FORMULA = """\
class Tasuki < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "{home}"
  url "{url}"
  sha256 "{sha256}"
  license "MIT"

  depends_on "python@3.13"

{resources}
  def install
    virtualenv_install_with_resources
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/tasuki --version")
  end
end
"""
RESOURCE = """\
  resource "{name}" do
    url "{url}"
    sha256 "{sha256}"
  end
"""


class Release(NamedTuple):
    """What is released, and by whom."""

    version: str
    owner: str
    project: dict[str, Any]
    """The table of pyproject.toml."""

    @property
    def home(self) -> str:
        """Its repository."""
        return f"https://github.com/{self.owner}/tasuki"

    @property
    def about(self) -> dict[str, Any]:
        """What the manifests of all plug-ins say."""
        return {"version": self.version, "description": SHORT, "author": {"name": "The tasuki authors"},
                "homepage": self.home, "repository": self.home, "license": "MIT"}  # fmt: skip


def write_parts(
    folder: Path, release: Release, sdist: Path, resources: list[dict[str, Any]]
) -> None:
    """Write every part below a folder; `resources` are packages of uv's lock file."""
    files = {
        **_build_marketplaces(release),
        **_build_plugin(release, "claude", ".claude-plugin"),
        **_build_plugin(release, "codex", ".codex-plugin"),
        "plugins/skills/handing-off/SKILL.md": list_files("pi")["skills/handing-off/SKILL.md"],
        **_build_npm(release, "pi", "tasuki-pi", "pi"),
        **_build_npm(release, "omp", "tasuki-omp", "omp"),
        **_build_opencode(release),
        "mcp-registry/server.json": _format(build_server(release)),
        "acp-registry/tasuki/agent.json": _format(build_agent(release)),
        "acp-registry/tasuki/icon.svg": ICON,
        "homebrew/tasuki.rb": build_formula(release, sdist, resources),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


# -- what `tasuki install` writes ---------------------------------------------------------


def list_additions(name: str) -> tuple[Addition, ...]:
    """List what is added to a harness, with tasuki found on the PATH."""
    integration = registry.get_integration(registry.get_harness(name))
    assert integration is not None
    return integration.list_additions(TASUKI)


def list_files(name: str) -> dict[str, str]:
    """List the files that belong to tasuki, by their path below the harness's folder."""
    found: dict[str, str] = {}
    for addition in list_additions(name):
        if isinstance(addition, OwnFile):
            parts = Path(addition.path).parts
            where = max(n for n, part in enumerate(parts) if part in FOLDERS)
            text = INSTALLED.sub("", SOURCE.sub("", addition.content))
            found["/".join(parts[where:])] = text
    return found


def list_hooks(name: str) -> dict[str, list[Any]]:
    """List the hooks by their events."""
    found: dict[str, list[Any]] = {}
    for addition in list_additions(name):
        if isinstance(addition, JsonEntry) and addition.keys[:1] == ("hooks",):
            found.setdefault(addition.keys[1], []).append(addition.value)
    return found


# -- plug-ins ---------------------------------------------------------------------------


def _build_marketplaces(release: Release) -> dict[str, str]:
    """Build the catalogs of both harnesses, at the root of one repository."""
    claude = {"name": "tasuki", "owner": {"name": release.owner}, "metadata": {"description": SHORT},
              "plugins": [{"name": "tasuki", "source": "./claude", "description": SHORT}]}  # fmt: skip
    codex = {
        "name": "tasuki",
        "plugins": [{"name": "tasuki", "source": {"source": "local", "path": "./codex"}}],
    }
    return {
        "plugins/.claude-plugin/marketplace.json": _format(claude),
        "plugins/.agents/plugins/marketplace.json": _format(codex),
    }


def _build_plugin(release: Release, name: str, folder: str) -> dict[str, str]:
    """Build the plug-in of a harness: its files, hooks and tools."""
    manifest = {"name": "tasuki", **release.about}
    if name == "codex":
        manifest |= {
            "skills": "./skills",
            "hooks": "./hooks/hooks.json",
            "mcpServers": "./.mcp.json",
        }
    content = {
        f"{folder}/plugin.json": _format(manifest),
        "hooks/hooks.json": _format({"hooks": list_hooks(name)}),
        ".mcp.json": _format(TOOLS),
        "README.md": _build_readme(release, name),
        **list_files(name),
    }
    own = NAMED if name == "claude" else {}
    return {f"plugins/{name}/{path}": _replace(text, own) for path, text in content.items()}


def _replace(text: str, others: dict[str, str]) -> str:
    for old, new in others.items():
        text = text.replace(old, new)
    return text


def _build_readme(release: Release, name: str) -> str:
    title = registry.get_harness(name).title
    install = INSTALL[name].format(owner=release.owner)
    return README.format(title=title, name=name, what=SHORT, install=install, home=release.home)


# -- npm --------------------------------------------------------------------------------


def _build_npm(release: Release, name: str, package: str, key: str) -> dict[str, str]:
    """Build a package of pi or oh-my-pi: its extension and its skill."""
    files = list_files(name)
    parts = {"extensions": [f"./{path}" for path in files if path.startswith("extensions/")],
             "skills": ["./skills"]}  # fmt: skip
    manifest = _build_manifest(release, package, [f"{key}-package"]) | {key: parts}
    return _place_npm(release, name, package, manifest, files)


OPENCODE = """\
import {{ TasukiHandoff }} from "./plugin/tasuki-handoff.js";

const COMMAND = {command};
const TOOLS = {tools};

export const Tasuki = async (input) => ({{
  ...(await TasukiHandoff(input)),
  config: async (config) => {{
    config.command = {{ handoff: COMMAND, ...config.command }};
    config.mcp = {{ tasuki: TOOLS, ...config.mcp }};
  }},
}});
"""


def _build_opencode(release: Release) -> dict[str, str]:
    """Build a package whose plug-in brings the command and the tools along."""
    files = list_files("opencode")
    _, head, template = files.pop("command/handoff.md").split("---\n", 2)
    description = json.loads(head.partition("description: ")[2])
    command = {"description": description, "template": template.strip()}
    tools = {"type": "local", "command": [*TASUKI, "mcp"], "enabled": True}
    files["index.js"] = OPENCODE.format(command=json.dumps(command), tools=json.dumps(tools))
    manifest = _build_manifest(release, "tasuki-opencode", ["opencode-plugin"])
    manifest |= {"type": "module", "main": "./index.js", "exports": "./index.js"}
    return _place_npm(release, "opencode", "tasuki-opencode", manifest, files)


def _build_manifest(release: Release, name: str, keywords: list[str]) -> dict[str, Any]:
    about = {key: release.about[key] for key in ("version", "description", "homepage", "license")}
    repository = {"type": "git", "url": f"git+{release.home}.git"}
    return {"name": name, **about, "repository": repository, "keywords": keywords}


def _place_npm(
    release: Release, name: str, package: str, manifest: dict[str, Any], files: dict[str, str]
) -> dict[str, str]:
    """Place the files of a package; it publishes exactly these."""
    manifest = manifest | {"files": sorted({path.split("/")[0] for path in files})}
    content = {
        "package.json": _format(manifest),
        "README.md": _build_readme(release, name),
        **files,
    }
    return {f"npm/{package}/{path}": text for path, text in content.items()}


# -- registries -----------------------------------------------------------------------------


def build_server(release: Release) -> dict[str, Any]:
    """Build the entry of the MCP registry: `uvx --with 'mcp…' tasuki@VERSION mcp`."""
    (needed,) = release.project["optional-dependencies"]["mcp"]
    package = {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": "tasuki",
        "version": release.version,
        "runtimeHint": "uvx",
        "runtimeArguments": [{"type": "named", "name": "--with", "value": needed}],
        "packageArguments": [{"type": "positional", "value": "mcp"}],
        "transport": {"type": "stdio"},
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": build_server_name(release.owner),
        "title": "tasuki",
        "description": SHORT,
        "repository": {"url": release.home, "source": "github"},
        "version": release.version,
        "packages": [package],
    }


def build_server_name(owner: str) -> str:
    """Build the name in the MCP registry, which the README must hold too, as a proof."""
    return f"io.github.{owner}/tasuki"


def build_agent(release: Release) -> dict[str, Any]:
    """Build the entry of the ACP registry: a proxy in front of the agent of the same registry."""
    run = ["acp", "--", "npx", "-y", "@agentclientprotocol/claude-agent-acp"]
    return {
        "id": "tasuki",
        "name": "tasuki",
        "version": release.version,
        "description": "Claude Code with /handoff: one unbroken session, handed to a fresh context.",
        "repository": release.home,
        "website": release.home,
        "authors": ["The tasuki authors"],
        "license": "MIT",
        "license_url": f"{release.home}/blob/main/LICENSE",
        "distribution": {
            "uvx": {"package": f"tasuki[acp]=={release.version}", "cmd": "tasuki", "args": run}
        },
    }


def build_formula(release: Release, sdist: Path, resources: list[dict[str, Any]]) -> str:
    """Build the Homebrew formula: the sdist, and the sdist of everything that it needs."""
    told = "\n".join(
        RESOURCE.format(name=one["name"], url=one["sdist"]["url"], sha256=one["sdist"]["hash"].removeprefix("sha256:"))
        for one in resources
    )  # fmt: skip
    return FORMULA.format(
        description="Hand a coding agent's work from one thread to a fresh one",
        home=release.home,
        url=f"https://files.pythonhosted.org/packages/source/t/tasuki/{sdist.name}",
        sha256=hashlib.sha256(sdist.read_bytes()).hexdigest(),
        resources=told,
    )


def read_resources(lock: Path) -> list[dict[str, Any]]:
    """Read the packages of a lock file of uv, without the project itself."""
    packages = tomllib.loads(lock.read_text())["package"]
    return [one for one in packages if "registry" in one["source"]]


def _format(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
