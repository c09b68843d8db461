"""A browser without scripts: pages, forms and a session cookie, over HTTP."""

import html
import re
from urllib.parse import urlencode, urlsplit

from web_servers import Answer, Served

_TAG = re.compile(r"<[^>]*>")


class Visitor:
    """Signed in by the link that the server prints."""

    def __init__(self, served: Served) -> None:
        self.served = served
        link = urlsplit(served.link)
        said = served.ask("GET", f"{link.path}?{link.query}", token="", Host=served.site)
        self.cookie = said.headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> Answer:
        """A page as it is sent."""
        return self.served.ask("GET", path, token="", Cookie=self.cookie)

    def page(self, path: str, status: int = 200) -> str:
        """The HTML of a page."""
        answer = self.get(path)
        assert status == answer.status, answer.body.decode()
        return answer.body.decode()

    def post(self, path: str, **fields: str) -> Answer:
        """Send a form as a browser does; a redirect is not followed."""
        return self.served.ask(
            "POST", path, urlencode(fields).encode(), token="", Cookie=self.cookie,
            Origin=self.served.origin, Content_Type="application/x-www-form-urlencoded",
        )  # fmt: skip


def words(page: str) -> str:
    """What a page says: without markup, on one line."""
    return " ".join(html.unescape(_TAG.sub(" ", page)).split())
