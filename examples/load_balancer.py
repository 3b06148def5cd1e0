"""The verified user of an Application Load Balancer, for caller=: docs/api.md. Needs cryptography."""

import json
import re
import time
from base64 import urlsafe_b64decode
from functools import lru_cache
from typing import Any
from urllib.request import urlopen

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from lambda_once import RetryLater

SIGNER = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/shop/50dc6c495c0c9188"
KEYS = "https://public-keys.auth.elb.eu-central-1.amazonaws.com"  # GovCloud: see the ELB user guide
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def load_balancer_user(event: dict[str, Any]) -> list[str] | None:
    """Return the user's issuer and subject; None, which gets 400, unless SIGNER vouches for them now."""
    several = event.get("multiValueHeaders") or {name: [each] for name, each in event["headers"].items()}
    try:
        (data,) = several["x-amzn-oidc-data"]
        signed, _, signature = data.rpartition(".")
        header, claims = (json.loads(urlsafe_b64decode(part)) for part in signed.split("."))
        is_ours = header["alg"] == "ES256" and header["signer"] == SIGNER and header["exp"] > time.time()
        if not is_ours or not UUID.fullmatch(header["kid"]):  # the kid becomes part of an address
            return None
        pair = utils.encode_dss_signature(*divmod(int.from_bytes(urlsafe_b64decode(signature)), 1 << 256))
        public_key(header["kid"]).verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))
        return [header["iss"], claims["sub"]]
    except (KeyError, TypeError, ValueError, RecursionError, InvalidSignature):
        return None


@lru_cache(maxsize=16)
def public_key(kid: str) -> ec.EllipticCurvePublicKey:
    """Return the load balancer's key *kid*. Raises ValueError for another curve than P-256."""
    try:
        with urlopen(f"{KEYS}/{kid}", timeout=2) as response:  # noqa: S310  (KEYS is an https address)
            key = serialization.load_pem_public_key(response.read())
    except OSError as error:
        getattr(error, "close", str)()  # an HTTPError holds its answer
        raise RetryLater(f"no public key {kid} of the load balancer: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise ValueError("not a key of P-256")
    return key
