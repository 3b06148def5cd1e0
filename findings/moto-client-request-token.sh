#!/usr/bin/env bash
# Package: moto 5.2.5
# Behaviour: TransactWriteItems applies a transaction a second time, though it has the first one's ClientRequestToken.
# Expected: the second call within ten minutes changes nothing: that's what the token is for, and botocore adds one to every call.
# Source: Amazon DynamoDB API reference, TransactWriteItems, ClientRequestToken; read in
#   moto.dynamodb.responses.DynamoHandler.transact_write_items, which doesn't read it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.44.8
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import boto3
from moto import mock_aws

ADD = {"TableName": "counters", "Key": {"id": {"S": "c-1"}}, "UpdateExpression": "ADD amount :one",
       "ExpressionAttributeValues": {":one": {"N": "1"}}}

with mock_aws():
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="counters", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
    for _ in range(2):
        client.transact_write_items(ClientRequestToken="same-token", TransactItems=[{"Update": ADD}])
    print(client.get_item(TableName="counters", Key={"id": {"S": "c-1"}})["Item"]["amount"])
PYTHON
diff seen - <<'SEEN'
{'N': '2'}
SEEN
