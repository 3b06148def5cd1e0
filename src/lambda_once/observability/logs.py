"""The log line of a happening: a stable name as its message, everything else as fields beside it."""

from __future__ import annotations

import logging
import sys
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from lambda_once.observability.details import MANNERS, MUST_SURVIVE

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger as PowertoolsLogger

    from lambda_once.observability.details import Details, Happening

    AnyLogger: TypeAlias = logging.Logger | PowertoolsLogger

_making: Final = Lock()


def write(logger: logging.Logger, details: Details, exception: BaseException | None = None) -> None:
    """
    Log *details* on *logger*, without buffering, and the traceback of *exception*.

    ``once.done`` and ``once.failed`` take the logger's own level where that is WARNING or below: they are
    all that tells what happened if the next write never lands.
    """
    level = level_of(details.happening, logger.getEffectiveLevel())
    if logger.isEnabledFor(level):
        logger.log(level, details.happening.value, extra=details.fields(), exc_info=exception)


def shows(logger: logging.Logger, happening: Happening) -> bool:
    """Tell whether *logger* writes the line of *happening*."""
    return logger.isEnabledFor(level_of(happening, logger.getEffectiveLevel()))


def level_of(happening: Happening, effective: int) -> int:
    """Return the level of the line on a logger whose effective level is *effective*."""
    level = MANNERS[happening].level
    return max(level, min(effective, logging.WARNING)) if happening in MUST_SURVIVE else level


def standard_logger(logger: AnyLogger | None, service: str) -> logging.Logger:
    """
    Return what to log on: *logger*, else the Powertools Logger of *service*, else an own one.

    A Powertools Logger stands for its standard one. To log on that passes by its buffer on purpose:
    buffered lines are lost with a killed invocation.
    """
    if logger is not None:
        return logging.getLogger(logger.name) if not isinstance(logger, logging.Logger) else logger
    with _making:
        return _of_service(service)


def _of_service(service: str) -> logging.Logger:
    """
    Return the service's logger if Powertools has configured it, else one made like it.

    The own one has another name: Powertools configures a logger once, and would ignore the options of
    a Logger that the user makes of this service later. A dot would make it another one's child.
    """
    from aws_lambda_powertools.logging.constants import LOGGER_ATTRIBUTE_PRECONFIGURED

    theirs = logging.getLogger(service)
    ours = logging.getLogger(f"lambda_once/{service.replace('.', '/')}")
    if getattr(theirs, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        return theirs
    if not getattr(ours, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        _configure(ours.name, service)
    return ours


def _configure(name: str, service: str) -> None:
    from aws_lambda_powertools import Logger as PowertoolsLogger

    PowertoolsLogger(service=name, logger_handler=_StandardOutput()).append_keys(service=service)


class _StandardOutput(logging.Handler):
    """Writes to what is sys.stdout at that moment, a line at once: test runners exchange it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stdout.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)
