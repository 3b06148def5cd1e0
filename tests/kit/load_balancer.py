"""A load balancer that authenticates users: it signs their claims, and a server has its public keys."""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from examples.load_balancer import SIGNER
from lambda_once.testing.clock import START

KID = str(UUID(int=1))
IN_TIME = int(START.timestamp()) + 120
"""When a JWT expires that was signed at the start of a `FakeClock`."""


def encoded(part: bytes) -> str:
    """Base64 as load balancers write it: with padding."""
    return urlsafe_b64encode(part).decode()


class LoadBalancer:
    """What signs the header x-amzn-oidc-data, by its newest key."""

    def __init__(self) -> None:
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.rotate(KID)

    def rotate(self, kid: str, curve: ec.EllipticCurve | None = None) -> None:
        """Sign by a new key from now on, of P-256 unless of another *curve*."""
        self.keys[kid] = ec.generate_private_key(curve or ec.SECP256R1())

    def pem(self, kid: str) -> bytes:
        """The public key *kid*, as the server shows it."""
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return self.keys[kid].public_key().public_bytes(*form)

    def data(self, sub: Any = "alice", *, claims: Any = None, **header: Any) -> str:
        """The header of one request of *sub*, or of *claims*; None among *header* is left out."""
        kid = next(reversed(self.keys))
        own = {"typ": "JWT", "kid": kid, "alg": "ES256", "iss": "https://id.example", "signer": SIGNER}
        head = {name: each for name, each in {**own, "exp": IN_TIME, **header}.items() if each is not None}
        found = {"sub": sub, "email": f"{sub}@shop.example"} if claims is None else claims
        text = ".".join(encoded(json.dumps(part).encode()) for part in (head, found))
        pair = decode_dss_signature(self.keys[kid].sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{encoded(b''.join(number.to_bytes(32, 'big') for number in pair))}"


class KeyServer:
    """Shows the keys of *balancer* under http://127.0.0.1:port/keys/, until it is closed."""

    def __init__(self, balancer: LoadBalancer) -> None:
        self.asked: list[str] = []
        """The paths of the requests."""
        self._server = HTTPServer(("127.0.0.1", 0), self._handler(balancer))
        self.address = f"http://127.0.0.1:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
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
                is_there = kid in balancer.keys
                status, body = (200, balancer.pem(kid)) if is_there else (403, b"<Error/>")  # as S3
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
