#!/usr/bin/env bash
# Package: pydantic 2.13.5
# Behaviour: a text in a field `Decimal | str` (or `date | str`) stays a text when it's validated from Python, and becomes a Decimal (a
#   date) when validated from the JSON that pydantic wrote of it.
# Expected: model_validate_json(model_dump_json()) gives back what was there; "0012", an order number, comes back as Decimal("12").
# Source: pydantic's docs, "Unions", smart mode, where an exact type wins; pydantic issue 10142, mended in pydantic-core pull request 1405
#   for Python's values only.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check pydantic==2.13.5
venv/bin/python -W ignore - <<'PYTHON' | tee seen
from datetime import date
from decimal import Decimal
from pydantic import BaseModel

class Order(BaseModel):
    number: Decimal | str
    period: date | str

order = Order(number="0012", period="2026-01-31")
print(repr(order))
print(order.model_dump_json())
print(repr(Order.model_validate_json(order.model_dump_json())))
PYTHON
diff seen - <<'SEEN'
Order(number='0012', period='2026-01-31')
{"number":"0012","period":"2026-01-31"}
Order(number=Decimal('12'), period=datetime.date(2026, 1, 31))
SEEN
