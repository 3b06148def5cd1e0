"""Which certificates are trusted."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def bundle_of(environ: Mapping[str, str]) -> str | None:
    """Return the bundle that *environ* names; None: botocore's own."""
    return environ.get("AWS_CA_BUNDLE") or environ.get("SSL_CERT_FILE") or None


def tls_context(named: str | None) -> ssl.SSLContext:
    """
    Return a context for TLS 1.2 and newer that checks names. *named* is a bundle; None: botocore's own.

    Raises botocore's InvalidConfigError for one that cannot be read.
    """
    bundle = Path(named) if named else _of_botocore()
    # As botocore makes it. `create_default_context` is strict since Python 3.13, and refuses a private
    # authority without a key identifier.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if bundle is None:
            context.load_default_certs()
        elif bundle.is_dir():
            context.load_verify_locations(capath=str(bundle))
        else:
            context.load_verify_locations(cafile=str(bundle))
    except OSError as error:  # that of a missing file does not name it
        raise InvalidConfigError(error_msg=f"the certificates in {bundle} cannot be read: {error}") from error
    return context


def _of_botocore() -> Path | None:
    spec = find_spec("botocore")
    origin = None if spec is None else spec.origin
    bundle = None if origin is None else Path(origin).with_name("cacert.pem")
    return bundle if bundle is not None and bundle.exists() else None
