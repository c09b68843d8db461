"""Keep the docs in step with the program: compares the generated parts, or rewrites them with --write."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from docs_json import with_shapes

from tasuki.cli.main import COMMANDS, cli

ROOT = Path(__file__).parent.parent
CLI_HEAD = """# Commands

This page is made from `--help`; `-h` shows the same in a terminal. {about}
Results go to standard output, everything else to standard error.
"""
HIDDEN = ("[OPTIONS]", "COMMAND", "[COMMAND]", "[ARGS]...")
"""Pieces of a usage line that say nothing here."""
EXIT_CODES = """
| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed; the message says what is safe |
| 2 | wrong usage, or a wrong setting |
| 3 | refused: the goal is vague or holds a secret, or there is nothing to hand off |
| 130 | interrupted or cancelled; nothing was started |
"""


def list_commands(names: list[str]) -> Iterator[tuple[str, click.Command]]:
    """Every command of these, a group before its own commands: `handoffs`, `handoffs find`."""
    with click.Context(cli) as context:
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            yield name, command
            if isinstance(command, click.Group):
                for sub in getattr(command, "names", command.commands):
                    found = command.get_command(context, sub)
                    assert found is not None
                    yield f"{name} {sub}", found


def describe_command(name: str, command: click.Command) -> str:
    """One command in Markdown: how it is called, what it does, its options."""
    context = click.Context(command, info_name=f"tasuki {name}")
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece not in HIDDEN]
    parts = [f"{'###' if ' ' in name else '##'} `{' '.join(('tasuki', name, *pieces))}`"]
    parts += [format_text(text) for text in (command.help, command.epilog) if text]
    records = [option.get_help_record(context) for option in command.get_params(context)]
    options = [
        f"- `{names}`: {' '.join(text.split())}"
        for names, text in filter(None, records)
        if text and not names.endswith("--help") and names != "--json"
    ]
    return "\n\n".join((*parts, "\n".join(options))).rstrip()


def format_text(text: str) -> str:
    """A help text; what click prints as it is, behind `\\b`, is a block."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\f", "").strip())
    return "\n\n".join(
        "```text\n" + paragraph.strip().removeprefix("\b\n") + "\n```"
        if paragraph.strip().startswith("\b")
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def make_cli_page(page: str) -> str:
    """The commands that users need."""
    names = [name for name in COMMANDS if name != "eval"]
    about = "Commands with `--json` print [JSON](json.md)."
    parts = [describe_command(*found) for found in list_commands(names)]
    return "\n\n".join((CLI_HEAD.format(about=about) + EXIT_CODES.rstrip("\n"), *parts)) + "\n"


def make_eval_page(page: str) -> str:
    """The commands that measure handoffs."""
    about = "What they measure: [evaluation](evaluation.md)."
    parts = [describe_command(*found) for found in list_commands(["eval"])]
    return "\n\n".join((CLI_HEAD.format(about=about).rstrip("\n"), *parts)) + "\n"


def replace_block(page: str, mark: str, text: str) -> str:
    """The page with what stands between `<!-- mark -->` and `<!-- /mark -->` replaced."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise click.ClickException(f"A page has no block {begin.strip()} … {end}")
    return f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}"


def with_contracts(page: str) -> str:
    """The page on writing a harness with the table of the contracts refreshed."""
    from tasuki_testing import CONTRACTS

    rows = [
        f"| {number} | {(contract.__doc__ or '').partition(chr(10))[0]} |"
        for number, contract in sorted(CONTRACTS.items())
    ]
    return replace_block(page, "contracts", "\n".join(("| | contract |", "|---|---|", *rows)))


def with_fleet_tables(page: str) -> str:
    """The page on the fleet with its failures, and what each harness can do, refreshed."""
    from tasuki.fleet.store.failures import REMEDIES
    from tasuki.harness import registry

    rows = [f"| `{code}` | {remedy.format(agent='ID')} |" for code, remedy in REMEDIES.items()]
    table = "\n".join(("| failure | what you can do |", "|---|---|", *rows))
    page = replace_block(page, "failures", table)
    rows = ["| | session begins | skill of a persona | compaction can be vetoed | a prompt while it works |", "|---|---|---|---|---|"]  # fmt: skip
    for adapter in map(registry.get_harness, registry.BUILT_IN):
        if (control := registry.get_control(adapter)) is None:
            continue
        begins = "with the first prompt" if control.starts_at_prompt else "with the program"
        skill = "at the session's start" if control.skill_at_start else "is the first prompt"
        veto = "yes" if control.can_veto else "no"
        busy = "is the next turn" if control.queues_prompts else "joins the turn"
        rows.append(f"| {adapter.title} | {begins} | {skill} | {veto} | {busy} |")
    return replace_block(page, "controls", "\n".join(rows))


PAGES: dict[Path, Callable[[str], str]] = {
    ROOT / "docs" / "cli.md": make_cli_page,
    ROOT / "docs" / "fleet-reference.md": with_fleet_tables,
    ROOT / "docs" / "json.md": with_shapes,
    ROOT / "workshop" / "eval-cli.md": make_eval_page,
    ROOT / "workshop" / "writing-a-harness.md": with_contracts,
}
"""Pages, and what refreshes each."""


def main() -> int:
    """0 if the pages are current."""
    stale = []
    for path, made in PAGES.items():
        page = path.read_text(encoding="utf-8") if path.exists() else ""
        if page != (wanted := made(page)):
            stale.append(path.name)
            if "--write" in sys.argv:
                path.write_text(wanted, encoding="utf-8")
    if stale and "--write" not in sys.argv:
        print(
            f"Not what the program says: {', '.join(stale)}. scripts/check --fix", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
