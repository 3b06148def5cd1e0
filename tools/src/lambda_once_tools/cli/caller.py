"""The identity that runs a command, as AWS STS returns it for its credentials."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

TRY: Final = 2.0
"""Seconds that a command waits for STS. Without an answer the decision is written unverified."""


def why_unverified(endpoint_url: str | None) -> str:
    """Return why `caller_arn` returned None, and what to do."""
    if endpoint_url is None:
        return f"AWS STS did not answer within {TRY:.0f} s, or refused"
    return (
        "--endpoint-url or AWS_ENDPOINT_URL_DYNAMODB is set. To have it verified, set endpoint_url for "
        "dynamodb in a services section of ~/.aws/config instead"
    )


def caller_arn(
    profile: str | None, region: str | None, endpoint_url: str | None, session: Any = None
) -> str | None:
    """
    Return the ARN of the credentials that a command uses; None: unverified.

    It takes one request of at most `TRY` seconds. With *endpoint_url*, such as a local engine's, the
    credentials prove nothing: None, without a request. *session* is the boto3 session of the command, if
    there is one: a new session could ask for a second MFA code.
    """
    if endpoint_url is not None:
        return None
    answer: list[str] = []

    def ask() -> None:
        with suppress(Exception):  # whatever it is, the caller is unverified
            answer.append(_asked(profile, region, session))

    asking = threading.Thread(target=ask, daemon=True, name="lambda-once-caller")
    asking.start()
    asking.join(TRY)  # connecting to several addresses, and credentials of a process, may take longer
    return answer[0] if answer else None


def _asked(profile: str | None, region: str | None, session: Any) -> str:
    import boto3
    from botocore.config import Config

    settings = Config(connect_timeout=TRY, read_timeout=TRY, retries={"total_max_attempts": 1})
    made = session or boto3.Session(profile_name=profile, region_name=region)
    arn: str = made.client("sts", config=settings).get_caller_identity()["Arn"]
    return arn
