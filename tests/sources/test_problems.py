from __future__ import annotations

from dataclasses import replace

import pytest

from lambda_once import errors
from lambda_once.core.unit import BadRequest, MalformedRequest
from lambda_once.sources.problems import Problem, problem_for


@pytest.mark.parametrize(
    ("kind", "status", "name", "wait"),
    [
        (errors.InProgress, 409, "in-progress", 3),
        (errors.Fenced, 409, "retry-later", 3),
        (errors.RetryLater, 409, "retry-later", 3),
        (errors.StoreUnavailable, 503, "store-unavailable", 3),
        (errors.KeyReused, 422, "key-reused", None),
        (errors.OtherCaller, 422, "other-credentials", None),
        (errors.KeyMissing, 400, "key-missing", None),
        (errors.Held, 409, "held", None),
        (errors.ResultUnavailable, 409, "result-unavailable", None),
        (errors.StoredError, 500, "failed", None),
        (errors.stored_error_type("CardDeclined"), 500, "failed", None),
        (errors.Misconfigured, 500, "misconfigured", None),
    ],
)
def test_each_error_is_answered(
    kind: type[errors.OnceError], status: int, name: str, wait: int | None
) -> None:
    """Each error has its status and type; only what may be sent again says when."""
    error = kind("secret of token orders/5", token="orders/secret", retry_after=2.1)
    problem = problem_for(error)
    assert (problem.status, problem.type, problem.retry_after) == (status, f"urn:lambda-once:{name}", wait)
    assert problem.title
    assert "secret" not in str(problem)


@pytest.mark.parametrize(
    ("seconds", "wait"), [(None, 1), (0.0, 1), (-5.0, 1), (0.2, 1), (1.0, 1), (1.01, 2), (900.0, 900)]
)
def test_the_wait_is_whole_seconds(seconds: float | None, wait: int) -> None:
    """Retry-After is a whole number of seconds, rounded up, and at least one."""
    assert problem_for(errors.InProgress("busy", retry_after=seconds)).headers()["Retry-After"] == str(wait)


def test_a_bad_request_says_what_is_wrong() -> None:
    """The message of a bad request is for the client, and reaches it."""
    problem = problem_for(BadRequest("The header Idempotency-Key is empty."))
    assert problem.status == 400
    assert problem.detail == "Nothing was done. The header Idempotency-Key is empty."


def test_a_malformed_request_is_not_one_without_a_key() -> None:
    """A client that has sent a key looks elsewhere."""
    problem = problem_for(
        MalformedRequest("The header Authorization was sent with different values: send one.")
    )
    assert (problem.status, problem.type) == (400, "urn:lambda-once:bad-request")
    assert problem.detail.endswith("send one.")


def test_a_missing_header_is_named() -> None:
    """A client that sent no key reads which header to send; one whose body has no key reads no header."""
    missing = errors.KeyMissing("secret")
    missing.header = "Idempotency-Key"
    problem = problem_for(missing)
    assert (problem.status, problem.type) == (400, "urn:lambda-once:key-missing")
    wanted = "Send the header Idempotency-Key with a value that is unique to this request."
    assert problem.detail == f"Nothing was done. {wanted}"
    assert "header" not in problem_for(errors.KeyMissing("secret")).detail


def test_a_reused_key_says_which_fields() -> None:
    """The fields of the error follow the fixed text unless they are hidden."""
    bare, listed = (problem_for(errors.KeyReused("no", fields=names)).detail for names in ((), ("a", "b")))
    assert listed == f"{bare} Fields that differ: a, b."
    assert problem_for(errors.KeyReused("no", fields=("a",), hidden=True)).detail == bare


def test_other_exceptions_say_nothing() -> None:
    """An exception that is not ours is a 500 without its message."""
    problem = problem_for(RuntimeError("secret"))
    assert (problem.status, problem.type, problem.retry_after) == (500, "about:blank", None)
    assert "secret" not in str(problem)


def test_a_problem_has_the_members_of_the_standard() -> None:
    """Headers and body are those of RFC 9457; Retry-After is there only where it is known."""
    problem = Problem(409, "Busy", "Wait.", "urn:x", 2)
    assert problem.headers() == {"Content-Type": "application/problem+json", "Retry-After": "2"}
    assert problem.body() == {"type": "urn:x", "title": "Busy", "status": 409, "detail": "Wait."}
    assert Problem(422, "Reused", "No.").headers() == {"Content-Type": "application/problem+json"}


def test_headers_are_added_to_a_problem() -> None:
    """To its own; one of the same name is replaced, and the body has none of them."""
    more = {"Retry-After": "9", "Vary": "Origin"}
    problem = replace(Problem(409, "Busy", "Wait.", "urn:x", 2), extra_headers=more)
    assert problem.headers() == {"Content-Type": "application/problem+json"} | more
    assert "Vary" not in str(problem.body())
