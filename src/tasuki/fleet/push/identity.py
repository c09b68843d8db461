"""The key by which push services know this server (VAPID, RFC 8292), made once."""

import os
import secrets
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

from tasuki.errors import StoreFailed
from tasuki.files import explain_error
from tasuki.fleet.push.encryption import CURVE, decode_text, encode_point, encode_text

KEY_FILE = "push-key"
VALID_SECONDS = 12 * 3600
"""How long a push service may take a token; 24 hours are the most."""
_HEAD = encode_text(b'{"typ":"JWT","alg":"ES256"}')


class ServerIdentity:
    """The key of a server, from a file that only its owner can read.

    Raises StoreFailed where that cannot be read or made.
    """

    def __init__(self, path: Path) -> None:
        self._key = _load_key(path)
        self.public_key = encode_text(encode_point(self._key.public_key()))
        """What a browser is told when it subscribes."""

    def build_header(self, endpoint: str, subject: str) -> str:
        """Build the header `Authorization` for a push service; `subject` is who sends, a URL."""
        place = urlsplit(endpoint)
        claims = {
            "aud": f"{place.scheme}://{place.netloc}", "exp": int(time.time()) + VALID_SECONDS, "sub": subject,
        }  # fmt: skip
        signed = f"{_HEAD}.{encode_text(msgspec.json.encode(claims))}"
        first, second = utils.decode_dss_signature(
            self._key.sign(signed.encode(), ec.ECDSA(SHA256()))
        )
        signature = encode_text(first.to_bytes(32, "big") + second.to_bytes(32, "big"))
        return f"vapid t={signed}.{signature}, k={self.public_key}"


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        if not os.path.lexists(path):
            _create_key(path)
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb") as file:
            content = decode_text(file.read(200).decode("ascii").strip())
        return ec.derive_private_key(int.from_bytes(content, "big"), CURVE)
    except OSError as error:
        raise StoreFailed(
            f"The key {path} cannot be used: {explain_error(error)}. Fix that, then switch notifications on again."
        ) from error
    except ValueError as error:
        raise StoreFailed(
            f"{path} holds no key. Remove it: a new one is made, and browsers subscribe again."
        ) from error


def _create_key(path: Path) -> None:
    """Create a key, whole or not at all; one that appears meanwhile stays."""
    content = ec.generate_private_key(CURVE).private_numbers().private_value.to_bytes(32, "big")
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(number, "w") as file:
            file.write(encode_text(content) + "\n")
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()
