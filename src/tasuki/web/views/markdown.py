"""Renders Markdown of agents and people as harmless HTML: no markup of theirs, no images.

Links go to http and https alone, and to entries where a document cites them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display

MOST_CHARACTERS = 200_000
"""Most characters that are rendered; a longer text is cut, and read raw."""
_REFERENCES = compile_pattern(r"\[((?:#\d{1,9})(?:[,\s–-]+#?\d{1,9})*)\]")
_REFERENCE = compile_pattern(r"#?(\d{1,9})")

MOST_LINES = 160
"""Lines of a document that are shown at first."""

EntryAddress = Callable[[int], str]
"""Returns the address of an entry."""


def fold_document(text: str) -> tuple[str, str]:
    """Split a long document at the last heading or blank line of its beginning; the rest is folded.

    A block of code is not split, unless nothing else is there.
    """
    lines = text.split("\n")
    if len(lines) <= MOST_LINES:
        return text, ""
    is_code, place = False, MOST_LINES
    for number, line in enumerate(lines[:MOST_LINES]):
        is_code ^= line.lstrip().startswith(("```", "~~~"))
        if not is_code and (not line.strip() or line.startswith("#")):
            place = number or place
    return "\n".join(lines[:place]), "\n".join(lines[place:])


def render_markdown(
    text: str, linked: EntryAddress | None = None, anchors: Mapping[str, str] = {}
) -> Markup:
    """Render Markdown as HTML. `linked` makes links of references to entries: `[#12, #14]`.

    Headings begin at `h2`, since the page has its own title; the first with a text of `anchors`
    gets that id.
    """
    text = clean_for_display(text)
    cut = text[MOST_CHARACTERS:]
    env = {"anchors": dict(anchors), "linked": linked}
    html = _create_renderer(linked).render(text[:MOST_CHARACTERS], env)
    html = clean_for_display(html)  # &#x202e; is a mark of direction too
    if cut:
        html += f'<p class="muted">{len(cut):,} more characters are not shown here.</p>'
    return Markup(html)  # noqa: S704 its own markup was not let through


def _create_renderer(linked: EntryAddress | None) -> MarkdownIt:
    renderer = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    renderer.enable("table").disable(["image", "html_block", "html_inline"])
    renderer.validateLink = lambda url: url.lower().startswith(("https://", "http://"))  # type: ignore[method-assign]
    renderer.add_render_rule("link_open", _render_link)
    renderer.add_render_rule("heading_open", _render_heading)
    renderer.add_render_rule("fence", _render_code)
    renderer.add_render_rule("code_block", _render_code)
    renderer.add_render_rule("heading_close", _render_heading)
    if linked is not None:
        renderer.add_render_rule("text", _render_text)
    return renderer


def _render_link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noreferrer noopener")
    return str(self.renderToken(tokens, index, options, env))


def _render_heading(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if len(token.tag) == 2 and token.tag[1].isdigit():
        token.tag = f"h{min(int(token.tag[1]) + 1, 4)}"
    if token.nesting == 1 and (id := env["anchors"].pop(tokens[index + 1].content, "")):
        token.attrSet("id", id)
    return str(self.renderToken(tokens, index, options, env))


def _render_code(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a block of code, which can be scrolled with the keyboard too."""
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _render_text(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a text with `[#12, #14]` as links to these entries."""

    def link(found: re.Match[str]) -> str:
        numbers = [int(n) for n in _REFERENCE.findall(found[1])]
        addresses = ((n, escape(env["linked"](n))) for n in numbers)
        return " ".join(f'<a class="ref" href="{address}">#{n}</a>' for n, address in addresses)

    return _REFERENCES.sub(link, str(escape(tokens[index].content)))
