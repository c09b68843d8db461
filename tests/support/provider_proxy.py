"""A proxy on this machine that answers for a provider's own host, with the scripted model behind it.

Some programs read an account's limits only from the host of their own provider. A program is
pointed here by `HTTPS_PROXY`, and trusts the certificate by `NODE_EXTRA_CA_CERTS`. Any other host
is refused, so nothing leaves the machine.
"""

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlparse

BLOCK = 65536


class ProviderProxy:
    """The proxy, as a context manager, with a certificate for `host` in `folder`."""

    def __init__(self, host: str, target: str, folder: Path) -> None:
        self.host, self.target = host, urlparse(target)
        self.certificate, key = folder / "provider.pem", folder / "provider.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-keyout", str(key), "-out", str(self.certificate), "-subj", f"/CN={host}"]
        command += ["-addext", f"subjectAltName=DNS:{host}"]
        subprocess.run(command, check=True, capture_output=True)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        """Address of the proxy."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (part := client.recv(BLOCK)):
                head += part
            if not head.startswith(f"CONNECT {self.host}:443 ".encode()):
                client.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                return
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            address = (self.target.hostname or "", self.target.port or 0)
            with (
                self.tls.wrap_socket(client, server_side=True) as inner,
                socket.create_connection(address) as model,
            ):
                threading.Thread(target=_copy, args=(inner, model), daemon=True).start()
                _copy(model, inner)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while part := source.recv(BLOCK):
            target.sendall(part)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
