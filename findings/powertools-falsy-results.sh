#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: a duplicate of a call that returned 0, False, an empty text, list or dict gets None.
# Expected: the first call's result.
# Source: Powertools' docs on idempotency, by which a duplicate gets the stored response; read in
#   aws_lambda_powertools.utilities.idempotency.base.IdempotencyHandler._handle_for_status.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-lambda-powertools==3.37.0 'moto[dynamodb]==5.2.5' boto3==1.44.8
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import boto3
from moto import mock_aws
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, idempotent_function

with mock_aws():
    boto3.client("dynamodb").create_table(
        TableName="tokens", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])

    @idempotent_function(data_keyword_argument="value", persistence_store=DynamoDBPersistenceLayer(table_name="tokens"))
    def echo(value):
        return value["is"]

    for result in (1, 0, False, "", [], {}):
        print(repr(echo(value={"is": result})), repr(echo(value={"is": result})))
PYTHON
diff seen - <<'SEEN'
1 1
0 None
False None
'' None
[] None
{} None
SEEN
