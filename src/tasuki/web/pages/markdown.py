"""Markdown that agents and people wrote, as HTML that can do nothing: no markup of theirs, no images.

Links go to http and https alone, and to entries where a document cites them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from tasuki.plain import shown

MOST = 200_000
"""Characters that are rendered; what is longer is cut, and read raw."""
_REFERENCES = re.compile(r"\[((?:#\d{1,9})(?:[,\s–-]+#?\d{1,9})*)\]")
_REFERENCE = re.compile(r"#?(\d{1,9})")

Linked = Callable[[int], str]
"""The address of an entry."""


def rendered(text: str, linked: Linked | None = None) -> Markup:
    """Markdown as HTML. `linked` makes links of references to entries: `[#12, #14]`.

    Headings begin at `h2`, since the page has its own title.
    """
    text = shown(text)
    cut = text[MOST:]
    html = shown(_markdown(linked).render(text[:MOST]))  # &#x202e; is a mark of direction too
    if cut:
        html += f'<p class="muted">{len(cut):,} more characters are not shown here.</p>'
    return Markup(html)  # noqa: S704 its own markup was not let through


def _markdown(linked: Linked | None) -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    made.enable("table").disable(["image", "html_block", "html_inline"])
    made.validateLink = lambda url: url.lower().startswith(("https://", "http://"))  # type: ignore[method-assign]
    made.add_render_rule("link_open", _link_opened)
    made.add_render_rule("heading_open", _heading)
    made.add_render_rule("fence", _code)
    made.add_render_rule("code_block", _code)
    made.add_render_rule("heading_close", _heading)
    if linked is not None:
        made.add_render_rule("text", _with_references(linked))
    return made


def _link_opened(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noreferrer noopener")
    return str(self.renderToken(tokens, index, options, env))


def _heading(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if len(token.tag) == 2 and token.tag[1].isdigit():
        token.tag = f"h{min(int(token.tag[1]) + 1, 4)}"
    return str(self.renderToken(tokens, index, options, env))


def _code(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A block of code, which is scrolled with the keyboard too."""
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _with_references(linked: Linked) -> Callable[..., str]:
    def text(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return _REFERENCES.sub(
            lambda found: references(found[1], linked), str(escape(tokens[index].content))
        )

    return text


def references(text: str, linked: Linked) -> str:
    """`#12, #14` as links to these entries."""
    numbers = [int(n) for n in _REFERENCE.findall(text)]
    return " ".join(f'<a class="ref" href="{escape(linked(n))}">#{n}</a>' for n in numbers)
