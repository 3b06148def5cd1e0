"""Each incident at night: the output of what is typed names the next step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.shop import Shop, on_engine
from tests.operations.incidents import INCIDENTS, Incident, refusing, words

pytestmark = pytest.mark.engine


@pytest.fixture(name="shop")
def open_shop(monkeypatch: pytest.MonkeyPatch, engine_endpoint: str) -> Iterator[Shop]:
    """A shop on dynoxide."""
    with on_engine(monkeypatch, engine_endpoint) as shop:
        yield shop


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.what)
def test_the_output_names_the_next_step(shop: Shop, incident: Incident) -> None:
    """A command, an option or a sentence that settles it, and the exit code that a script sees."""
    incident.prepare(shop)
    shop.clock.advance(3_600)
    with refusing(incident) as options:
        *_, ran = [shop.run(*options, *words(typed, shop)) for typed in incident.typed]
    assert incident.step in ran.output
    assert ran.exit_code == incident.code
    assert "Traceback" not in ran.output
