"""Messages that only one browser can read: Web Push encryption (RFC 8291, coding of RFC 8188)."""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidKey, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tasuki.errors import UsageError

CURVE = ec.SECP256R1()
KEY_BYTES, SECRET_BYTES, SALT_BYTES = 65, 16, 16
RECORD_BYTES = 4096
"""Size of the one record of a message, which every push service takes."""
MOST_MESSAGE_BYTES = 3000
PADDED_BYTES = 1024
"""Messages are this long at least, so that their length tells nothing."""
_LAST_RECORD = b"\x02"


def encrypt_message(
    message: bytes,
    browser_key: bytes,
    secret: bytes,
    *,
    own_key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes = b"",
    length: int = PADDED_BYTES,
) -> bytes:
    """Encrypt a message for a browser; return the body that its push service takes.

    `browser_key` and `secret` are the `p256dh` and the `auth` of its subscription. `own_key` and
    `salt` are new ones where none are given: none may serve twice. Raises UsageError.
    """
    if len(message) > MOST_MESSAGE_BYTES:
        raise UsageError(f"A message has {MOST_MESSAGE_BYTES} bytes at most.")
    own_key = own_key or ec.generate_private_key(CURVE)
    salt = salt or os.urandom(SALT_BYTES)
    own_public = encode_point(own_key.public_key())
    shared = own_key.exchange(ec.ECDH(), load_point(browser_key))
    key = _derive(secret, shared, b"WebPush: info\0" + browser_key + own_public, 32)
    content_key = _derive(salt, key, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, key, b"Content-Encoding: nonce\0", 12)
    padded = (message + _LAST_RECORD).ljust(length, b"\0")
    sealed = AESGCM(content_key).encrypt(nonce, padded, None)
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(own_public)]) + own_public
    return head + sealed


def load_point(content: bytes) -> ec.EllipticCurvePublicKey:
    """Load a public key of 65 bytes. Raises UsageError where it is no point of the curve."""
    try:
        if len(content) != KEY_BYTES:
            raise ValueError
        return ec.EllipticCurvePublicKey.from_encoded_point(CURVE, content)
    except (ValueError, InvalidKey, UnsupportedAlgorithm):
        raise UsageError("The browser's key is no public key of the curve P-256.") from None


def encode_point(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key as its 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def encode_text(content: bytes) -> str:
    """Encode bytes as base64url without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def decode_text(text: str) -> bytes:
    """Decode base64url, padded or not. Raises ValueError."""
    return urlsafe_b64decode(
        text.encode("ascii").rstrip(b"=") + b"=" * (-len(text.rstrip("=")) % 4)
    )


def _derive(salt: bytes, key: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(key)
