"""
Sends the requests of a botocore client over our own connections.

botocore keeps its parameters, endpoint rules, credentials, modelled errors, and whatever wraps
`_make_api_call`. The rest, its request objects, signing, urllib3 and parsing, is most of a request's cost
(benchmarks/README.md), and is skipped by a public event: a handler of `before-call` may answer a request
itself, as botocore's Stubber does. Where this one cannot be sure that it does what botocore would do, it
returns None, and botocore goes on.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from functools import cache, cached_property
from io import BytesIO
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import botocore.session
from botocore import awsrequest, httpsession
from botocore import endpoint as endpoints
from botocore.utils import get_environ_proxies

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.dynamodb.answers import EXPIRED, REDIRECT, answer_of, redacted
from lambda_once.dynamodb.connection import Response, message
from lambda_once.dynamodb.pool import Endpoint, Pool
from lambda_once.dynamodb.sigv4 import CONTENT_TYPE, SERVICE, Credentials, Signer, target_of
from lambda_once.dynamodb.tls import Certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATIONS: Final = frozenset(
    {
        "BatchExecuteStatement",
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "ExecuteStatement",
        "GetItem",
        "PutItem",
        "Query",
        "Scan",
        "TransactGetItems",
        "TransactWriteItems",
        "UpdateItem",
    }
)
"""Those whose responses have attribute values and numbers alone; a table's description has times, too."""

_FORWARDED: Final = frozenset({"baggage", "traceparent", "tracestate", "user-agent", "x-amzn-trace-id"})
"""Those that botocore does not sign (auth.SIGNED_HEADERS_BLACKLIST) and that say something to a server."""
_SENDABLE: Final = re.compile(r"[\t -~]*")


class Direct:
    """
    Sends what one client of botocore's has to send. Safe from several threads.

    *session* has the credentials. *connect* and *answer* are seconds; *connections* are kept for each host.
    """

    def __init__(
        self, session: Any, *, connect: float, answer: float, connections: int, clock: Clock | None = None
    ) -> None:
        self._session = session
        # A `verify=` in code is not ours; the rest is read as botocore's endpoint.py does.
        named = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
        self._certificates = Certificates(named)
        self._connect = connect
        self._answer = timedelta(seconds=answer)
        self._connections = connections
        self._clock = clock or SystemClock()
        self._events: Any = None
        self._region = ""
        self._pools: dict[str, Pool | None] = {}
        """By URL, since accounts may have hosts of their own; None: botocore sends to it."""
        self._signers: dict[tuple[str, str], Signer] = {}

    def client(self, **options: Any) -> Any:
        """Make the client, by the session's `create_client`. Its `close` closes these connections, too."""
        self._session.register("creating-client-class.dynamodb", self._closing)
        client = self._session.create_client("dynamodb", **options)
        self._events, self._region = client.meta.events, client.meta.region_name
        # Last: the trace header is there by then, and who answers in botocore's stead has done so.
        self._events.register_last("before-call", self._before_call)
        # Now, under the URL of requests: it reads the certificates, and INIT has more CPU than an invocation.
        self._pool(f"{client.meta.endpoint_url.rstrip('/')}/")
        return client

    def _closing(self, base_classes: list[type], **_: Any) -> None:
        pools = self._pools

        class Closing:
            def close(self) -> None:
                super().close()  # type: ignore[misc]  # botocore's BaseClient comes next
                for pool in list(pools.values()):  # a copy: another thread may be adding one
                    if pool is not None:
                        pool.close()

        base_classes.insert(0, Closing)

    def _before_call(
        self, model: Any, params: Mapping[str, Any], request_signer: Any, context: Any, **_: Any
    ) -> tuple[Any, dict[str, Any]] | None:
        """Return the HTTP response and what botocore's parser makes of it; None: botocore sends."""
        forwarded = _forwarded(self._traced(params), model.name)
        if forwarded is None or not _is_plain(model, params, request_signer, context):
            return None
        region = context.get("signing", {}).get("region") or request_signer.region_name
        signer = self._signer(params["url"], region)
        if signer is None:
            return None
        try:
            http, parsed = self._sent(model, params, forwarded, signer)
            if http.status_code >= REDIRECT and parsed["Error"]["Code"] in EXPIRED and self._renewed(signer):
                signer = self._signer(params["url"], region) or signer
                http, parsed = self._sent(model, params, forwarded, signer)
        except Exception as error:
            name = f"after-call-error.dynamodb.{model.name}"
            self._events.emit(name, exception=error, context=context)
            raise
        if http.status_code >= REDIRECT:
            parsed = _modelled(model, redacted(signer.credentials.token, parsed))
        return http, parsed

    def _traced(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the headers, with what tracers such as X-Ray's add where botocore prepares a request."""
        if _is_own(endpoints.Endpoint.prepare_request, endpoints):
            return params["headers"]  # type: ignore[no-any-return]
        request = awsrequest.AWSRequest("POST", params["url"], dict(params["headers"]), params["body"])
        unsent = endpoints.Endpoint(params["url"], SERVICE, self._events, http_session=object())
        unsent.prepare_request(request)
        return {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in request.headers.items()
        }

    def _sent(
        self, model: Any, params: Mapping[str, Any], forwarded: dict[str, str], signer: Signer
    ) -> tuple[Any, dict[str, Any]]:
        """Send a request once, or take the response of whoever answers `before-send`, such as moto."""
        url, body, now = params["url"], params["body"], self._clock.now()
        request = _Prepared(url, signer.headers(model.name, body, now) | forwarded, body, params["context"])
        answers = self._events.emit(f"before-send.dynamodb.{model.name}", request=request)
        for _, http in answers:
            if http is not None:
                return http, answer_of(_response_of(http)).parsed
        pool = self._pool(request.url)
        if pool is None:
            raise ValueError(f"before-send leads to {request.url}")
        deadline = Deadline(self._clock, now + self._answer)
        response, parsed = pool.post(message(request.sendable(), request.body), deadline)
        return _Received(request.url, response), parsed

    def _pool(self, url: str) -> Pool | None:
        """Return the connections to *url*; None: botocore sends to it, by a proxy, or with a path."""
        if url not in self._pools:
            proxy = get_environ_proxies(url).get(urlsplit(url).scheme)
            endpoint = None if proxy else Endpoint.of(url, self._region)
            made = endpoint and Pool(endpoint, self._certificates, self._connect, self._connections)
            self._pools.setdefault(url, made)
        return self._pools[url]

    def _signer(self, url: str, region: str) -> Signer | None:
        """Return what signs with the credentials of this moment; None: botocore sends."""
        pool, held = self._pool(url), self._session.get_credentials()
        if pool is None or held is None:
            return None
        frozen = _frozen(held)
        signer = self._signers.get((url, region))
        if signer is None or signer.credentials != frozen:
            credentials = Credentials.usable(*frozen)
            if credentials is None:
                return None
            signer = Signer(credentials, region, pool.endpoint.host)
            self._signers[url, region] = signer
        return signer

    def _renewed(self, signer: Signer) -> bool:
        """
        Read the credentials anew, and return whether they are other ones than those of *signer*.

        By a new session: a session keeps the ones out of the environment or a file as long as it lives.
        """
        session = botocore.session.get_session()
        held = session.get_credentials()
        if held is None or _frozen(held) == signer.credentials:
            return False
        self._session = session
        return True


# ---------------------------------------------------------------- what is sent here


def _frozen(held: Any) -> tuple[str | None, str | None, str | None]:
    """Return the credentials of one moment, which others may follow while a request is signed."""
    frozen = held.get_frozen_credentials()
    return frozen.access_key, frozen.secret_key, frozen.token or None


def _is_plain(model: Any, params: Mapping[str, Any], signer: Any, context: Mapping[str, Any]) -> bool:
    """Return whether botocore would sign and send the request as it is done here."""
    signing = context.get("signing", {})
    return (
        model.name in OPERATIONS
        and type(params["body"]) is bytes
        and (context.get("auth_type") or signer.signature_version) == "v4"
        and signing.get("signing_name", signer.signing_name) == SERVICE
        and "request_credentials" not in signing
        and "discovery" not in context  # endpoint discovery: the host is chosen later
        and _is_sent_by_botocore()
    )


def _is_sent_by_botocore() -> bool:
    """Return whether botocore's own code would send: vcr and its like put theirs in its place."""
    return (
        _is_own(httpsession.URLLib3Session.send, httpsession)
        and _is_own(endpoints.Endpoint.make_request, endpoints)
        and awsrequest.AWSHTTPConnectionPool.ConnectionCls.__module__ == awsrequest.__name__
        and awsrequest.AWSHTTPSConnectionPool.ConnectionCls.__module__ == awsrequest.__name__
    )


def _is_own(function: object, module: object) -> bool:
    """Return whether *function* is that of *module*; one that wraps it may have its attributes."""
    return type(function) is FunctionType and function.__globals__ is vars(module)


def _forwarded(headers: Mapping[str, Any], operation: str) -> dict[str, str] | None:
    """Return the headers that are sent unsigned; None: there is another one, or one that cannot be sent."""
    expected = _written(operation)
    forwarded = {"accept-encoding": "identity"}  # the checksum is over the bytes as they come
    for name, value in headers.items():
        known = name.lower()
        if known in _FORWARDED and isinstance(value, str) and _SENDABLE.fullmatch(value):
            forwarded[known] = value
        elif expected.get(known) != value:
            return None
    return forwarded


@cache
def _written(operation: str) -> Mapping[str, str]:
    """Return the headers of botocore's that a `Signer` writes, too."""
    return {"content-type": CONTENT_TYPE, "x-amz-target": target_of(operation)}


# ---------------------------------------------------------------- requests and responses as botocore has them


class _Prepared(awsrequest.AWSPreparedRequest):  # type: ignore[misc]  # botocore has no types
    """A request for those who listen to `before-send`: few do, so its headers are made when one looks."""

    def __init__(self, url: str, headers: dict[str, str], body: bytes, context: Any) -> None:
        self._written = headers
        self.method, self.url, self.body = "POST", url, body
        self.stream_output, self.context = False, context

    @cached_property
    def headers(self) -> awsrequest.HeadersDict:
        return awsrequest.HeadersDict({name: value.encode() for name, value in self._written.items()})

    def sendable(self) -> dict[str, str]:
        """Return the headers that are sent, with what a listener has changed."""
        if "headers" not in vars(self):
            return self._written
        given = self.headers.items()
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in given}


class _Received(awsrequest.AWSResponse):  # type: ignore[misc]  # botocore has no types
    """A response for those who listen to `after-call`, most of which read its status alone."""

    def __init__(self, url: str, response: Response) -> None:
        self._response = response
        self.url, self.status_code = url, response.status

    @cached_property
    def headers(self) -> awsrequest.HeadersDict:
        return awsrequest.HeadersDict(self._response.headers)

    @property
    def content(self) -> bytes:
        return self._response.body

    @cached_property
    def raw(self) -> BytesIO:
        return BytesIO(self._response.body)


def _response_of(http: Any) -> Response:
    headers = {str(name).lower(): str(value) for name, value in http.headers.items()}
    return Response(http.status_code, headers, http.content)


def _modelled(model: Any, parsed: dict[str, Any]) -> dict[str, Any]:
    """Return an error with the fields that its model has, as botocore's parser does."""
    shape = model.service_model.shape_for_error_code(parsed["Error"]["Code"])
    fields = {"Error", "ResponseMetadata", *(shape.members if shape is not None else ())}
    return {name: value for name, value in parsed.items() if name in fields}
