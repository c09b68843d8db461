"""An address of a test's own that takes notifications, as a service would."""

import http.server
import json
import threading
from typing import Any


class Inbox:
    """An address that notifications are posted to; `status` is what it answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        self.held = threading.Event()
        self.held.set()
        inbox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                inbox.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                inbox.held.wait(20)
                self.send_response(inbox.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.where = f"json://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def titles(self) -> list[str]:
        """What arrived."""
        return [one["title"] for one in self.got]

    def close(self) -> None:
        """Answer no more."""
        self.held.set()
        self.server.shutdown()
        self.server.server_close()
