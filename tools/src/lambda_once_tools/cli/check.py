"""``lambda-once check``: what is wrong with the deployment that a template describes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once_tools.check.deployment import CannotCheck, Deployment, Finding, NothingToCheck, Severity
from lambda_once_tools.cli.options import with_output
from lambda_once_tools.cli.render import Output, Paragraph, line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

_HEADS: Final = {Severity.ERROR: "ERROR ", Severity.WARNING: "WARN  ", Severity.ADVICE: "ADVICE"}
_COLOURS: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
INDENT: Final = 7
COMMANDS: Final = ("aws ", "lambda-once ")
"""How a `Finding.fix` begins that is typed, not written into a template."""


def parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"{text!r}: give NAME=VALUE")
    return name, value


def accepted(text: str) -> tuple[str, str]:
    code, colon, resource = text.partition(":")
    if not (code and colon and resource):
        raise click.BadParameter(f"{text!r}: give CODE:RESOURCE, such as Q1:PaymentsFunction")
    return code, resource


@click.command("check")
@click.option(
    "--template",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="A SAM or CloudFormation template in YAML or JSON, such as those in cdk.out/ and .serverless/, "
    "or the output of aws cloudformation get-template.",
)
@click.option(
    "--parameter",
    "parameters",
    type=parameter,
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the template; may be repeated.  [default: that of the template]",
)
@click.option(
    "--accept",
    type=accepted,
    multiple=True,
    metavar="CODE:RESOURCE",
    help="A finding that is as it should be, such as Q1:PaymentsFunction; may be repeated.",
)
@with_output
def check_command(
    output: Output,
    template: Path,
    parameters: tuple[tuple[str, str], ...],
    accept: tuple[tuple[str, str], ...],
) -> None:
    """
    Check a deployment: its table, event source mappings, queues, permissions and variables.

    Reads a template, offline. What cannot be seen is listed as "not checked". docs/check.md explains the
    letters of the codes.

    Exit code: 0 nothing but advice or accepted findings, 1 an error or a warning, or a template in which
    nothing uses lambda-once, 2 it could not be checked.
    """
    from lambda_once_tools.check import templates
    from lambda_once_tools.check.rules import findings

    try:
        deployment = templates.read(template, dict(parameters))
    except NothingToCheck as error:
        output.say(f"lambda-once: {error}")
        raise click.exceptions.Exit(1) from error
    except CannotCheck as error:
        raise click.ClickException(str(error)) from error
    everything = findings(deployment)
    found = [each for each in everything if (each.code, each.resource) not in accept]
    agreed = [each for each in everything if (each.code, each.resource) in accept]
    if everything or deployment.not_checked or not output.is_table:
        output.one(report(found, agreed, deployment), _text(found, agreed, deployment))
    for code, resource in accept:
        if (code, resource) not in {(each.code, each.resource) for each in agreed}:
            output.say(f"--accept {code}:{resource} matches no finding: remove it, or correct it")
    output.say(summary(found, agreed, deployment))
    if any(each.severity is not Severity.ADVICE for each in found):
        raise click.exceptions.Exit(1)


# -- output


def report(found: Sequence[Finding], agreed: Sequence[Finding], deployment: Deployment) -> dict[str, Any]:
    def rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
        return [each._asdict() | {"severity": each.severity.value} for each in findings]

    return {
        "findings": rows(found),
        "accepted": rows(agreed),
        "notChecked": [each._asdict() for each in deployment.not_checked],
    }


def _text(found: Sequence[Finding], agreed: Sequence[Finding], deployment: Deployment) -> RenderableType:
    from rich.console import Group

    missing = (line(f"not checked: {each.resource} ({each.why})") for each in deployment.not_checked)
    accepted = (line(f"accepted: {each.code} {each.resource}: {each.what}") for each in agreed)
    return Group(*(part for each in found for part in _parts(each)), *accepted, *missing)


def _parts(finding: Finding) -> Iterator[RenderableType]:
    """Yield what is printed of *finding*. A line to write is copied: it is never broken."""
    head = (_HEADS[finding.severity], _COLOURS[finding.severity])
    yield line(head, f" {finding.code} {finding.resource}: {finding.what}")
    yield Paragraph(finding.why, indent=INDENT)
    sign = "$" if finding.fix.startswith(COMMANDS) else "+"
    for each in finding.fix.splitlines():
        yield line(" " * INDENT, (f"{sign} {each}", "green"))


def summary(found: Sequence[Finding], agreed: Sequence[Finding], deployment: Deployment) -> str:
    """Return the last line: what was checked, and how much was found."""
    count = Counter(each.severity for each in found)
    checked = {
        "function": len(deployment.functions),
        "event source mapping": len(deployment.sources),
        "queue": len(deployment.queues),
        "table": len(deployment.tables),
    }
    of = ", ".join(_counted(number, noun) for noun, number in checked.items() if number) or "nothing"
    results = [
        _counted(count[Severity.ERROR], "error"),
        _counted(count[Severity.WARNING], "warning"),
        f"{count[Severity.ADVICE]} advice",
        f"{len(agreed)} accepted",
    ]
    wrong = ", ".join(each for each in results if not each.startswith("0 ")) or "nothing wrong"
    return f"checked {of}: {wrong}; {len(deployment.not_checked)} not checked"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
