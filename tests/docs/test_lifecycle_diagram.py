from __future__ import annotations

from lambda_once.core.lifecycle import Course, OnLapse, decide
from tests.docs.lifecycle_diagram import BEGIN, END, NOW, OURS, PAGE, PRESENTED, ROWS, edges, redrawn


def test_the_lifecycle_page_is_drawn_from_the_code() -> None:
    """Its diagram and table are what `python -m tests.docs.lifecycle_diagram` makes of states and writes."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert redrawn(page) == page


def test_the_table_shows_every_decision() -> None:
    """No answer that a request can get is left out."""
    shown = {decide(row, NOW, OURS, "f", rule, PRESENTED) for row in ROWS.values() for rule in OnLapse}
    assert shown == set(Course)


def test_only_time_leads_away_from_a_final_state() -> None:
    """No write leaves a completed token, and only a resolution leaves a held one."""
    leaving = {pair: labels for pair, labels in edges().items() if pair[0] in {"Complete", "Failed", "Held"}}
    assert leaving == {
        ("Complete", "Absent"): ["ttl"],
        ("Failed", "Absent"): ["ttl"],
        ("Held", "Complete"): ["resolved as done"],
        ("Held", "Failed"): ["resolved as failed"],
        ("Held", "Released"): ["resolved as not done"],
    }
