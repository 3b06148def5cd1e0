#!/usr/bin/env bash
# Package: aws-kinesis-agg 1.2.3
# Behaviour: in a new environment the package can't be imported: it imports six and doesn't require it.
# Expected: pip installs what the package imports; it works where another package, such as python-dateutil, happens to bring six.
# Source: awslabs/kinesis-aggregation issue 188 (open).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-kinesis-agg==1.2.3
venv/bin/python -W ignore - <<'PYTHON' | tee seen
try:
    import aws_kinesis_agg.deaggregator
except ModuleNotFoundError as error:
    print(error)
PYTHON
diff seen - <<'SEEN'
No module named 'six'
SEEN
