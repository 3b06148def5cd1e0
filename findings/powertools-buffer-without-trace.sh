#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: where there's no X-Ray trace id, a Logger with a buffer drops the lines that it would buffer: an error doesn't write them,
#   nor does flush_buffer.
# Expected: they're written at once, or buffered under another key; in unit tests and outside Lambda they're lost, without a
#   warning.
# Source: read in aws_lambda_powertools.logging.logger.Logger._add_log_record_to_buffer, which returns without a trace id.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-lambda-powertools==3.37.0
venv/bin/python -W ignore - <<'PYTHON' | tee seen
import io, json, os
from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.buffer import LoggerBufferConfig

written = io.StringIO()
logger = Logger(service="shop", level="DEBUG", stream=written, buffer_config=LoggerBufferConfig(buffer_at_verbosity="INFO"))
for trace in ("", "Root=1-5759e988-bd862e3fe1be46a994272793"):
    os.environ["_X_AMZN_TRACE_ID"] = trace
    written.seek(0), written.truncate()
    logger.info("order read")
    logger.error("order refused")
    logger.flush_buffer()
    print(bool(trace), [json.loads(line)["message"] for line in written.getvalue().splitlines()])
PYTHON
diff seen - <<'SEEN'
False ['order refused']
True ['order read', 'order refused']
SEEN
