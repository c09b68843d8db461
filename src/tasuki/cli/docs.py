"""`tasuki docs`: the documentation that this version came with."""

from pathlib import Path

import click

import tasuki


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the documentation, or list them.

    PAGE is a name of the list, such as `quickstart` or `harnesses/claude`. They are those of the installed version.
    """
    folder = docs_folder()
    pages = {str(p.relative_to(folder).with_suffix("")): p for p in sorted(folder.rglob("*.md"))}
    if page is None:
        click.echo("\n".join(pages))
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise click.UsageError(f"No page {page!r}. The pages: tasuki docs")
    click.echo_via_pager(pages[name].read_text("utf-8"))


def docs_folder() -> Path:
    """Where the pages lie: beside the package in a wheel, in `docs/` of a checkout. Raises UsageError."""
    package = Path(tasuki.__file__).parent
    for folder in (package / "docs", package.parent.parent / "docs"):
        if (folder / "quickstart.md").is_file():
            return folder
    raise click.UsageError(
        "This installation holds no documentation; the checkout has it in docs/."
    )
