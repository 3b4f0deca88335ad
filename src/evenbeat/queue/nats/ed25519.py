"""Ed25519 signatures by the OpenSSL that Python itself is linked with, as the standard library does not offer them."""

import _ssl
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer
from functools import cache
from typing import Any, Final

_KIND: Final = 1087
"""EVP_PKEY_ED25519."""
_PUBLIC: Final = 32
_SIGNATURE: Final = 64


class Ed25519Unsupported(OSError):
    """The OpenSSL of this Python cannot be used, or does not know Ed25519."""


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_ssl.__file__)  # with all that it is linked with
        library.EVP_PKEY_new_raw_private_key.restype = c_void_p
        library.EVP_PKEY_new_raw_private_key.argtypes = [c_int, c_void_p, c_char_p, c_size_t]
        library.EVP_PKEY_get_raw_public_key.argtypes = [c_void_p, c_char_p, c_void_p]
        library.EVP_PKEY_free.argtypes = [c_void_p]
        library.EVP_MD_CTX_new.restype = c_void_p
        library.EVP_MD_CTX_free.argtypes = [c_void_p]
        library.EVP_DigestSignInit.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]
        library.EVP_DigestSign.argtypes = [c_void_p, c_char_p, c_void_p, c_char_p, c_size_t]
    except (AttributeError, OSError) as e:
        raise Ed25519Unsupported(f"this Python has no OpenSSL of its own that could sign: {e}") from None
    return library


class Ed25519PrivateKey:
    """A private key, made of 32 bytes. Use it in a `with` statement, which frees it in OpenSSL."""

    def __init__(self, seed: bytes) -> None:
        self._library = _library()
        self._key = self._library.EVP_PKEY_new_raw_private_key(_KIND, None, seed, len(seed))
        if not self._key:
            raise Ed25519Unsupported(
                "OpenSSL does not take the key: accepted are 32 bytes, and an OpenSSL with Ed25519"
            )

    def public(self) -> bytes:
        """The public key."""
        found, length = create_string_buffer(_PUBLIC), c_size_t(_PUBLIC)
        self._must(self._library.EVP_PKEY_get_raw_public_key(self._key, found, byref(length)))
        return found.raw[: length.value]

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        context = self._library.EVP_MD_CTX_new()
        try:
            signature, length = create_string_buffer(_SIGNATURE), c_size_t(_SIGNATURE)
            self._must(self._library.EVP_DigestSignInit(context, None, None, None, self._key))
            self._must(self._library.EVP_DigestSign(context, signature, byref(length), message, len(message)))
            return signature.raw[: length.value]
        finally:
            self._library.EVP_MD_CTX_free(context)

    def _must(self, done: int) -> None:
        if done != 1:
            raise Ed25519Unsupported("OpenSSL cannot sign with Ed25519 here")

    def __enter__(self) -> "Ed25519PrivateKey":
        return self

    def __exit__(self, *error: object) -> None:
        self._library.EVP_PKEY_free(self._key)
