"""
Trusted certificates, and when they are read.

A whole bundle takes 18 ms to read, most of what TLS adds to a cold start; Amazon's own roots take 1.5 ms. The
certificates of AWS' hosts are under these (Amazon Trust Services, repository), so they are tried first.
"""

from __future__ import annotations

import re
import ssl
from base64 import b64decode
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from botocore.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

AMAZON: Final = frozenset(
    {
        "8ecde6884f3d87b1125ba31ac3fcb13d7016de7f57cc904fe1cb97c6ae98196e",  # Amazon Root CA 1
        "1ba5b2aa8c65401a82960118f80bec4f62304d83cec4713a19c39c011ea46db4",  # Amazon Root CA 2
        "18ce6cfe7bf14e60b2e347b8dfe868cb31d02ebb3ada271569f50343b46db3a4",  # Amazon Root CA 3
        "e35d28419ed02025cfa69038cd623962458da5c695fbdea3c22b0bfb25897092",  # Amazon Root CA 4
        "568d6905a2c88708a4b3025190edcfedb1974a606a13c6e5290fcb2ae63edab5",  # Starfield Services Root CA - G2
    }
)
"""SHA-256 of Amazon's roots (Amazon Trust Services, repository)."""
_LABELS: Final = re.compile(
    r'^# Label: "(?:Amazon Root CA \d|Starfield Services Root [^"]*)"$(?:\n#.*)*\n'
    r"(-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)-----END CERTIFICATE-----)",
    re.MULTILINE,
)
_STANDARD: Final = re.compile(r"[a-z0-9.-]+\.(?!us-gov-|us-iso|cn-)[a-z0-9-]+\.(?:amazonaws\.com|api\.aws)")
"""Hosts of the standard partition, ending in region and suffix (botocore's partitions.json)."""


def bundle_of(environ: Mapping[str, str]) -> str | None:
    """Return the bundle that *environ* names, as botocore finds it; None: the usual one."""
    return environ.get("AWS_CA_BUNDLE") or environ.get("REQUESTS_CA_BUNDLE") or None


class Certificates:
    """
    What connections trust: *bundle*, a file or folder; None is what botocore uses.

    Safe from several threads: two may read the same file at once.
    """

    def __init__(self, bundle: str | None) -> None:
        self._bundle = bundle
        self._all: ssl.SSLContext | None = None
        self._amazons: ssl.SSLContext | None = None

    def first_for(self, host: str) -> ssl.SSLContext:
        """Return the context to try first: Amazon's roots if *host* is AWS' and no bundle is named."""
        if self._amazons is None and self._bundle is None and _STANDARD.fullmatch(host):
            self._amazons = _amazons()
        may = self._amazons if self._bundle is None and _STANDARD.fullmatch(host) else None
        return may or self.all()

    def all(self) -> ssl.SSLContext:
        """Return a context that trusts the whole bundle. Raises InvalidConfigError if it cannot be read."""
        if self._all is None:
            self._all = _trusting(self._bundle or _usual())
        return self._all


def _amazons() -> ssl.SSLContext | None:
    """Return a context that trusts Amazon's roots; None if the usual bundle is not as expected."""
    usual = _usual()
    if usual is None or not Path(usual).is_file():
        return None
    found = {
        sha256(b64decode(body)).hexdigest(): pem
        for pem, body in _LABELS.findall(Path(usual).read_text("utf-8"))
    }
    if not found.keys() >= AMAZON:
        return None
    context = _context()
    context.load_verify_locations(cadata="\n".join(found[each] for each in sorted(AMAZON)))
    return context


def _trusting(bundle: str | None) -> ssl.SSLContext:
    """Return a context that trusts *bundle* (None: the system's). Raises InvalidConfigError if unreadable."""
    context = _context()
    try:
        if bundle is None:
            context.load_default_certs()
        elif Path(bundle).is_dir():
            context.load_verify_locations(capath=bundle)
        else:
            context.load_verify_locations(cafile=bundle)
    except OSError as error:  # that of a missing file does not name it
        raise InvalidConfigError(error_msg=f"the certificates in {bundle} cannot be read: {error}") from error
    return context


def _context() -> ssl.SSLContext:
    # As botocore makes it. `create_default_context` is strict since Python 3.13, and refuses a private
    # authority without a key identifier.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _usual() -> str | None:
    """Return botocore's bundle: certifi's if it is installed, else botocore's own (httpsession.where)."""
    if find_spec("certifi") is not None:
        return str(import_module("certifi").where())
    spec = find_spec("botocore")
    bundle = None if spec is None or spec.origin is None else Path(spec.origin).with_name("cacert.pem")
    return str(bundle) if bundle is not None and bundle.exists() else None
