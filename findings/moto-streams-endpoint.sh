#!/usr/bin/env bash
# Package: moto 5.2.5 with boto3 1.44.8
# Behaviour: mock_aws doesn't know the host to which boto3 sends a request with a stream's ARN (ACCOUNT.streams-ddb.REGION): the answer is
#   404, "Not yet implemented". With account_id_endpoint_mode="disabled" it's the old host, and works.
# Expected: DescribeStream works in moto with the newest boto3 and no options; a firewall's list of hosts needs the new one, too.
# Source: read in botocore's data/dynamodbstreams endpoint rules and in moto.dynamodbstreams.urls.url_bases.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.44.8
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

with mock_aws():
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="orders", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    arn = client.describe_table(TableName="orders")["Table"]["LatestStreamArn"]
    for options in ({}, {"account_id_endpoint_mode": "disabled"}):
        streams = boto3.client("dynamodbstreams", config=Config(**options))
        streams.meta.events.register_first("before-send", lambda request, **_: print(request.url.split("/")[2]))
        try:
            print(streams.describe_stream(StreamArn=arn)["StreamDescription"]["StreamStatus"])
        except ClientError as error:
            print(error.response["Error"])
PYTHON
diff seen - <<'SEEN'
123456789012.streams-ddb.eu-west-1.amazonaws.com
{'Message': 'Not yet implemented', 'Code': '404'}
streams.dynamodb.eu-west-1.amazonaws.com
ENABLED
SEEN
