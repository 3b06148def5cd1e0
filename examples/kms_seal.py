"""Seals results under data keys of a KMS key, one an hour: docs/sealing.md."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NotConnected
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lambda_once import RetryLater

HOUR = 3_600


class KmsSeal:
    """Seals with AES-256-GCM under data keys of a KMS key, for one service."""

    def __init__(self, kms: Any, key: str, *, service: str, old_keys: tuple[str, ...] = ()) -> None:
        """*key* and *old_keys* are ARNs. Asks KMS for a data key: while that fails, nothing runs."""
        self._kms, self._key, self._trusted = kms, key, {key, *old_keys}
        self._context = {"service": service}
        self._known = lru_cache(maxsize=100)(self._decrypted)
        self._until = 0.0
        self._renew()

    def encrypt(self, data: bytes, context: str) -> bytes:
        """Return *data* sealed, with *context* authenticated."""
        if time.time() >= self._until:
            try:
                self._renew()
            except (ClientError, NotConnected, HTTPClientError):
                self._until = time.time() + 60  # the old one goes on: a result that is not sealed is lost
        data_key, wrapped = self._current
        nonce = os.urandom(12)
        body = AESGCM(data_key).encrypt(nonce, data, context.encode())
        return len(wrapped).to_bytes(2, "big") + wrapped + nonce + body

    def decrypt(self, sealed: bytes, context: str) -> bytes:
        """Return what was sealed under *context*."""
        end = 2 + int.from_bytes(sealed[:2], "big")
        data_key, wrapped = self._current
        if sealed[2:end] != wrapped:
            data_key = self._known(sealed[2:end])
        return AESGCM(data_key).decrypt(sealed[end : end + 12], sealed[end + 12 :], context.encode())

    def _renew(self) -> None:
        made = self._kms.generate_data_key(
            KeyId=self._key, KeySpec="AES_256", EncryptionContext=self._context
        )
        self._current: tuple[bytes, bytes] = made["Plaintext"], made["CiphertextBlob"]
        self._until = time.time() + HOUR

    def _decrypted(self, wrapped: bytes) -> bytes:
        try:
            opened = self._kms.decrypt(CiphertextBlob=wrapped, EncryptionContext=self._context)
        except (NotConnected, HTTPClientError) as error:
            raise RetryLater("KMS did not answer; retry later") from error
        except ClientError as error:
            code, status = (
                error.response["Error"]["Code"],
                error.response["ResponseMetadata"]["HTTPStatusCode"],
            )
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR or code == "ThrottlingException":
                raise RetryLater(f"KMS answered {code}; retry later") from error
            raise
        if opened["KeyId"] not in self._trusted:
            raise ValueError("a data key of another KMS key")
        data_key: bytes = opened["Plaintext"]
        return data_key
