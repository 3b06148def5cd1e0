#!/usr/bin/env bash
# Package: moto 5.2.5 (with py-partiql-parser 0.6.3)
# Behaviour: in PartiQL an INSERT replaces an item that exists, and an UPDATE of one that doesn't exist succeeds and writes nothing.
# Expected: DuplicateItemException and ConditionalCheckFailedException, as from DynamoDB, so that INSERT can be a lock in tests, too.
# Source: Amazon DynamoDB developer guide, "PartiQL insert statements" and "PartiQL update statements"; read in
#   moto.dynamodb.models.DynamoDBBackend.execute_statement.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.44.8 py-partiql-parser==0.6.3
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import boto3
from moto import mock_aws

with mock_aws():
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="orders", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
    client.put_item(TableName="orders", Item={"id": {"S": "o-1"}, "owner": {"S": "first"}})
    client.execute_statement(Statement="INSERT INTO orders VALUE {'id': 'o-1', 'owner': 'second'}")
    print(client.get_item(TableName="orders", Key={"id": {"S": "o-1"}})["Item"]["owner"])
    response = client.execute_statement(Statement="UPDATE orders SET owner='third' WHERE id='o-2'")
    print(response["ResponseMetadata"]["HTTPStatusCode"], client.scan(TableName="orders")["Count"])
PYTHON
diff seen - <<'SEEN'
{'S': 'second'}
200 1
SEEN
