"""Keep the docs in step with `--help` and the contracts: compares, or rewrites with --write."""

import sys
from pathlib import Path

import click
from click.testing import CliRunner
from docs_json import with_shapes

from tasuki.cli.main import COMMANDS, cli

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
BEGIN = "<!-- help:{} -->\n"
END = "<!-- /help -->\n"


def help_of(*command: str) -> str:
    """What `tasuki COMMAND --help` prints, at a width of 100."""
    result = CliRunner().invoke(
        cli, [*command, "--help"], prog_name="tasuki", terminal_width=100, max_content_width=100
    )
    if result.exit_code:
        raise click.ClickException(f"tasuki {' '.join(command)} --help failed: {result.output}")
    return result.output


def commands() -> list[str]:
    """Every command, and those of groups behind their group: `handoffs find`."""
    found = []
    with click.Context(cli) as context:
        for name in COMMANDS:
            found.append(name)
            command = cli.get_command(context, name)
            if isinstance(command, click.Group):
                found += [f"{name} {sub}" for sub in command.commands]
    return found


def rendered(page: str) -> str:
    """The page with every help block refreshed. Raises if a command has no block."""
    for name in ("", *commands()):
        begin = BEGIN.format(name or "tasuki")
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(END)
        if not (found and ended):
            raise click.ClickException(f"{PAGE.name} has no block {begin.strip()} … {END.strip()}")
        text = help_of(*name.split())
        page = f"{before}{begin}```text\n{text}```\n{END}{after}"
    return page


def with_contracts(page: str) -> str:
    """The page on writing a harness with the table of the contracts refreshed."""
    from tasuki.testing import CONTRACTS

    before, _, rest = page.partition("<!-- contracts -->\n")
    rows = [
        f"| {number} | {(contract.__doc__ or '').partition(chr(10))[0]} |"
        for number, contract in sorted(CONTRACTS.items())
    ]
    table = "\n".join(("| | contract |", "|---|---|", *rows))
    end = "<!-- /contracts -->"
    return f"{before}<!-- contracts -->\n{table}\n{end}{rest.partition(end)[2]}"


def with_failures(page: str) -> str:
    """The page on the fleet with the table of the failures refreshed."""
    from tasuki.fleet.store.failures import REMEDIES

    rows = [f"| `{code}` | {remedy.format(agent='ID')} |" for code, remedy in REMEDIES.items()]
    table = "\n".join(("| failure | what you can do |", "|---|---|", *rows))
    before, _, rest = page.partition("<!-- failures -->\n")
    end = "<!-- /failures -->"
    return f"{before}<!-- failures -->\n{table}\n{end}{rest.partition(end)[2]}"


def with_controls(page: str) -> str:
    """The same page with the table of what each harness can do refreshed."""
    from tasuki.harness import registry

    rows = ["| | session begins | skill of a persona | compaction can be vetoed | a prompt while it works |", "|---|---|---|---|---|"]  # fmt: skip
    for adapter in map(registry.get_harness, registry.BUILT_IN):
        if (control := registry.get_control(adapter)) is None:
            continue
        begins = "with the first prompt" if control.starts_at_prompt else "with the program"
        skill = "at the session's start" if control.skill_at_start else "is the first prompt"
        veto = "yes" if control.can_veto else "no"
        busy = "is a turn behind it" if control.queues_prompts else "joins the turn"
        rows.append(f"| {adapter.title} | {begins} | {skill} | {veto} | {busy} |")
    table = "\n".join(rows)
    before, _, rest = page.partition("<!-- controls -->\n")
    end = "<!-- /controls -->"
    return f"{before}<!-- controls -->\n{table}\n{end}{rest.partition(end)[2]}"


PAGES = {
    PAGE: rendered,
    PAGE.parent / "writing-a-harness.md": with_contracts,
    PAGE.parent / "json.md": with_shapes,
    PAGE.parent / "fleet.md": lambda page: with_controls(with_failures(page)),
}
"""Pages, and what refreshes each."""


def main() -> int:
    """0 if the pages are current."""
    stale = []
    for path, made in PAGES.items():
        page = path.read_text(encoding="utf-8")
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
