#!/usr/bin/env bash
# Package: aws-durable-execution-sdk-python 3.0.0 (with aws-durable-execution-sdk-python-testing 1.4.0)
# Behaviour: a step in `finally:` runs at the first suspension, not at the end, since the SDK suspends by an exception; the replay then
#   finds it in the next step's place and the execution fails.
# Expected: a finally block runs once, when the function is over, as in plain Python.
# Source: read in aws_durable_execution_sdk_python.exceptions.SuspendExecution, a BaseException, and
#   identifier.OperationIdentifier.validate_checkpoint.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-durable-execution-sdk-python==3.0.0 aws-durable-execution-sdk-python-testing==1.4.0
env AWS_DEFAULT_REGION=eu-west-1 venv/bin/python -W ignore - <<'PYTHON' | tee seen
import logging
from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import Duration
from aws_durable_execution_sdk_python_testing import DurableFunctionTestRunner

logging.disable()
ran = []

@durable_execution
def handler(event, context):
    context.step(lambda _: ran.append("reserve"), name="reserve")
    try:
        context.wait(Duration.from_seconds(1), name="pause")
        context.step(lambda _: ran.append("ship"), name="ship")
    finally:
        context.step(lambda _: ran.append("release"), name="release")

with DurableFunctionTestRunner(handler=handler) as runner:
    result = runner.run(input="{}", timeout=20)
print(result.status.name, result.error.type.rpartition(".")[2], ran)
PYTHON
diff seen - <<'SEEN'
FAILED NonDeterministicExecutionError ['reserve', 'release', 'release']
SEEN
