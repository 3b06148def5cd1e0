"""
`make aws`: deploys the sample into your account, plays the assertions, writes a report, deletes everything.

    make aws [REGION=eu-central-1] [RUNTIME=python3.14] [ARCHITECTURE=arm64] [ONLY=word]
    make aws DELETE=lambda-once-1a2b3c4d5e6f    # what a run left behind that was killed

Credentials and region come from boto3's chain (AWS_PROFILE, aws sso login …). Exit codes (of each but 0
make makes 2): 0 all hold; 1 something doesn't, or wasn't played; 2 nothing was begun, or found to delete; 3
something was left behind; 130 interrupted, and all is deleted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from ssl import SSLContext, create_default_context
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import get_cert_path

from lambda_once.core.clock import SystemClock
from tests.aws import archives, of_functions, of_tables
from tests.aws.cost import BUDGET, cost
from tests.aws.play import Answer, Assertion, Http, Response, Run, Verdict, play
from tests.aws.report import Circumstances, report
from tests.aws.stacks import (
    ROOT,
    SAMPLE,
    Aws,
    Interrupts,
    LeftBehind,
    StackFailed,
    borrow,
    delete,
    deploy,
    template,
)

ASSERTIONS: Final[tuple[Assertion, ...]] = (*of_functions.ASSERTIONS, *of_tables.ASSERTIONS)
CONFIG: Final = Config(read_timeout=70, retries={"mode": "standard", "total_max_attempts": 8})
"""It goes on through half a minute without network."""
RUNTIMES: Final = template(SAMPLE)["Parameters"]["Runtime"]["AllowedValues"]
NAMES: Final = re.compile(r"lambda-once-[0-9a-f]{12}")
ONCE: Final = Config(read_timeout=70, retries={"total_max_attempts": 1})
"""Of Lambda's client: an invocation that is sent again is another one."""


def say(text: str) -> None:
    """Tell whoever waits; a terminal that has gone is no reason not to delete."""
    with suppress(OSError, ValueError):
        print(text, flush=True)  # noqa: T201


def account(session: Any) -> Aws:
    """Return the account of *session*."""

    def fresh(service: str) -> Any:
        return session.client(service, config=ONCE if service == "lambda" else CONFIG)

    return Aws(cache(fresh), fresh, session.region_name, SystemClock(), say)


def post(address: str, headers: dict[str, str], body: bytes) -> Response:
    """Post *body* to the API."""
    request = Request(address, body, headers)
    try:
        with urlopen(request, timeout=40, context=trusting()) as answer:
            return Response(answer.status, _lower(answer.headers), answer.read().decode())
    except HTTPError as error:
        return Response(error.code, _lower(error.headers), error.read().decode())


def trusting() -> SSLContext:
    """Return what trusts whom boto3 trusts: Python from python.org trusts nobody on a Mac."""
    return create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or get_cert_path(verify=True))


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def is_agreed(number: str, region: str) -> bool:
    """Ask whether the budget may be spent."""
    say(f"This run makes a bucket and two stacks in account {number}, {region}, for some 15 minutes.")
    say(f"It costs ${BUDGET:.2f} at most. docs/aws.md says what is made, and what stays.")
    try:
        return input("Spend that? Type yes: ").strip().lower() == "yes"
    except (EOFError, KeyboardInterrupt):
        return False


def name_of_a_run(text: str) -> str:
    """Return *text*. Raises ArgumentTypeError for what is called otherwise: nothing else is deleted."""
    if not NAMES.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the name of a run, such as lambda-once-1a2b3c4d5e6f"
        )
    return text


def main(arguments: list[str]) -> int:
    """Read the arguments, ask, and make a run. Returns the exit code."""
    parser = argparse.ArgumentParser("make aws", description=__doc__)
    parser.add_argument("--region")
    parser.add_argument("--runtime", default="python3.14", choices=RUNTIMES)
    parser.add_argument("--architecture", default="arm64", choices=["arm64", "x86_64"])
    parser.add_argument("--only", default="", help="play the assertions whose name has this word")
    parser.add_argument(
        "--delete", metavar="NAME", type=name_of_a_run, help="delete what the run NAME left behind"
    )
    options = parser.parse_args(arguments)
    chosen = [each for each in ASSERTIONS if options.only in each.__name__]
    if not chosen:
        parser.exit(2, f"No assertion has {options.only!r} in its name\n")
    try:
        session = boto3.Session(region_name=options.region)
        if session.region_name is None:
            parser.exit(2, "No region: pass REGION=…, or set AWS_REGION\n")
        number = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        parser.exit(2, f"AWS didn't say who you are, so nothing was done: {error}\n")
    aws = account(session)
    if options.delete:
        return deleted(aws, options.delete)
    if not is_agreed(number, aws.region):
        say("Nothing was made.")
        return 2
    settings = {"Runtime": options.runtime, "Architecture": options.architecture}
    # Work that is done here, in the table, is told by nobody.
    os.environ |= {"POWERTOOLS_LOG_LEVEL": "CRITICAL", "POWERTOOLS_METRICS_DISABLED": "true"}
    return conducted(aws, post, settings, chosen, partial(archives.built, settings), ROOT / "build" / "aws")


def conducted(
    aws: Aws,
    post: Http,
    settings: Mapping[str, str],
    assertions: Sequence[Assertion],
    build: Callable[[], dict[str, bytes]],
    folder: Path,
) -> int:
    """Build, deploy, play *assertions*, delete, and write the report into *folder*. Returns the exit code."""
    name = f"lambda-once-{token_hex(6)}"
    begun, spent = aws.clock.now(), dict[str, float]()
    answers: dict[str, Answer] = {}
    stop = Interrupts(aws.say)
    stop.install()
    aws.say(f"This run is {name}. If it is killed: make aws DELETE={name} REGION={aws.region}")

    def use(outputs: dict[str, str]) -> None:
        run = Run(aws, outputs, post, begun, spent)
        of_functions.wait_for_functions(run)
        play(run, assertions, answers)

    code, ended = 0, "all is deleted"
    try:
        borrow(aws, name, lambda: deploy(aws, name, build(), settings), use, stop)
    except KeyboardInterrupt as signal:
        code, ended = 130, f"interrupted by {signal}; all is deleted"
    except LeftBehind as error:
        aws.say(str(error))
        code, ended = 3, str(error)
    except (StackFailed, ClientError, BotoCoreError, subprocess.CalledProcessError, OSError) as error:
        aws.say(f"Not deployed: {error}")
        code, ended = 1, f"not deployed: {error}"
    if not code and {answer.verdict for answer in answers.values()} - {Verdict.HOLDS, Verdict.SEEN}:
        code = 1
    minutes = (aws.clock.now() - begun).total_seconds() / 60
    made = Circumstances(commit(), aws.region, settings, VERSIONS, minutes, cost(spent), ended)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(report(made, answers), encoding="utf-8")
    aws.say(f"The report is {path.relative_to(folder.parents[1])}. docs/aws.md says where to send it.")
    return code


VERSIONS: Final = {
    "lambda-once": version("lambda-once"),
    "Powertools": version("aws-lambda-powertools"),
    "botocore here": botocore.__version__,
    "Python here": ".".join(map(str, sys.version_info[:3])),
}


def commit() -> str:
    """Return the commit that is deployed, marked if files have changed."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    described = subprocess.run(git, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "no clone"


def deleted(aws: Aws, name: str) -> int:
    """Delete what the run *name* left behind."""
    found, left = delete(aws, name)
    if left:
        aws.say(f"left behind: {'; '.join(left)}")
        return 3
    if not found:
        aws.say(f"nothing in {aws.region} is called {name}: did it run there, in this account?")
        return 2
    aws.say(f"deleted: {', '.join(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
