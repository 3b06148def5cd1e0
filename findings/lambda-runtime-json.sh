#!/usr/bin/env bash
# Package: awslambdaric 4.2.2 (with simplejson 4.3.0)
# Behaviour: the runtime writes a handler's named tuple as an object, bytes within a result as text, and NaN as NaN.
# Expected: what json.dumps writes: a list, a TypeError; and no answer that isn't JSON, as NaN isn't. Code that was tried with json.dumps
#   in a unit test answers otherwise on Lambda.
# Source: RFC 8259, section 6; read in awslambdaric.lambda_runtime_marshaller.Encoder, which is simplejson's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check awslambdaric==4.2.2 simplejson==4.3.0
venv/bin/python -W ignore - <<'PYTHON' | tee seen
import json
from typing import NamedTuple
from awslambdaric.lambda_runtime_marshaller import to_json

class Price(NamedTuple):
    amount: int
    currency: str

for answer in (Price(5, "EUR"), {"key": b"abc"}, {"rate": float("nan")}):
    try:
        plain = json.dumps(answer)
    except TypeError as error:
        plain = error
    print(to_json(answer), "|", plain)
PYTHON
diff seen - <<'SEEN'
{"amount": 5, "currency": "EUR"} | [5, "EUR"]
{"key": "abc"} | Object of type bytes is not JSON serializable
{"rate": NaN} | {"rate": NaN}
SEEN
