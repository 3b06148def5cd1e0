"""A load balancer that authenticates users: it signs their claims, and shows its public keys over HTTPS."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from lambda_once.testing.clock import START

ARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/shop/50dc6c495c0c9188"
KID = str(UUID(int=1))
IN_TIME = int(START.timestamp()) + 120
"""When a JWT expires that was signed at the start of a `FakeClock`."""
OWN: Any = object()
"""As the load balancer has it."""


def encoded(part: bytes, *, padded: bool = True) -> str:
    """Base64 as load balancers write it, with padding, or as RFC 7515 does."""
    text = urlsafe_b64encode(part).decode()
    return text if padded else text.rstrip("=")


class LoadBalancer:
    """What signs the header x-amzn-oidc-data, by its newest key."""

    def __init__(self, arn: str = ARN) -> None:
        self.arn = arn
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.rotate(KID)

    def rotate(self, kid: str) -> None:
        """Sign by a new key from now on."""
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def pem(self, kid: str = KID) -> bytes:
        """The public key *kid*, as the server shows it."""
        return (
            self.keys[kid]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )

    def data(self, sub: Any = "alice", *, claims: Any = OWN, padded: bool = True, **header: Any) -> str:
        """The header of one request of *sub*; None among *header* is left out."""
        issuer = "https://id.example"
        kid = next(reversed(self.keys))
        own = {"typ": "JWT", "kid": kid, "alg": "ES256", "iss": issuer, "client": "c1", "signer": self.arn}
        head = {name: each for name, each in {**own, "exp": IN_TIME, **header}.items() if each is not None}
        found = {"sub": sub, "email": f"{sub}@shop.example", "exp": IN_TIME} if claims is OWN else claims
        parts = (head, found)
        text = ".".join(encoded(json.dumps(part).encode(), padded=padded) for part in parts)
        return f"{text}.{encoded(self._signed(text), padded=padded)}"

    def _signed(self, text: str) -> bytes:
        key = self.keys[next(reversed(self.keys))]
        pair = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(32, "big") for number in pair)


class KeyServer:
    """Shows the keys of *balancer* under https://localhost:port/keys/, until it is closed."""

    def __init__(self, balancer: LoadBalancer, context: ssl.SSLContext) -> None:
        self.asked: list[str] = []
        """The paths of the requests."""
        self.answers: list[tuple[int, bytes]] = []
        """What the next requests get instead of a key."""
        server = HTTPServer(("127.0.0.1", 0), self._handler(balancer))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.address = f"https://localhost:{server.server_port}/keys"
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self, balancer: LoadBalancer) -> type[BaseHTTPRequestHandler]:
        shown = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shown.asked.append(self.path)
                kid = self.path.removeprefix("/keys/")
                found = (200, balancer.pem(kid)) if kid in balancer.keys else (403, b"<Error/>")  # as S3
                status, body = shown.answers.pop(0) if shown.answers else found
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
