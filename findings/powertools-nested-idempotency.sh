#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: an idempotent function that calls another with the same persistence layer stores its result under the other's key, and its
#   own record stays INPROGRESS.
# Expected: two records, each with its own function's result; instead a repeated outer call is refused as being in progress until its
#   record expires, and a repeated inner one gets the outer's result.
# Source: aws-powertools/powertools-lambda-typescript issue 5707 (the same fault of its TypeScript twin); read in
#   aws_lambda_powertools.utilities.idempotency.persistence.base.BasePersistenceLayer.configure, which sets function_name on each call.
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
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="tokens", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
    layer = DynamoDBPersistenceLayer(table_name="tokens")

    @idempotent_function(data_keyword_argument="order", persistence_store=layer)
    def charge(order):
        return "charged"

    @idempotent_function(data_keyword_argument="order", persistence_store=layer)
    def place(order):
        charge(order=order)
        return "placed"

    print(place(order="o-1"), charge(order="o-1"))
    for item in sorted(client.scan(TableName="tokens")["Items"], key=lambda item: item["id"]["S"]):
        print(item["id"]["S"].split("#")[0].rpartition(".")[2], item["status"]["S"], item.get("data", {}).get("S"))
PYTHON
diff seen - <<'SEEN'
placed placed
charge COMPLETED "placed"
place INPROGRESS None
SEEN
