#!/usr/bin/env bash
# Package: moto 5.2.5
# Behaviour: an UpdateItem that creates an item puts two INSERT records into the table's stream: the first has the key alone.
# Expected: one INSERT with the item as written, as DynamoDB Streams has each modification of an item once.
# Source: Amazon DynamoDB developer guide, "Change data capture for DynamoDB Streams"; read in
#   moto.dynamodb.models.DynamoDBBackend.update_item, which puts the bare key first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.44.8
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import boto3
from botocore.config import Config
from moto import mock_aws

with mock_aws():
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="orders", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    client.update_item(TableName="orders", Key={"id": {"S": "o-1"}}, UpdateExpression="SET price = :p",
                       ExpressionAttributeValues={":p": {"N": "5"}})
    arn = client.describe_table(TableName="orders")["Table"]["LatestStreamArn"]
    streams = boto3.client("dynamodbstreams", config=Config(account_id_endpoint_mode="disabled"))
    shard = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
    start = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    for record in streams.get_records(ShardIterator=start["ShardIterator"])["Records"]:
        print(record["eventName"], record["dynamodb"]["NewImage"])
PYTHON
diff seen - <<'SEEN'
INSERT {'id': {'S': 'o-1'}}
INSERT {'id': {'S': 'o-1'}, 'price': {'N': '5'}}
SEEN
