#!/usr/bin/env bash
# Package: moto 5.2.5
# Behaviour: CloudFormation creates a table without the time to live and the point-in-time recovery of the template, and reports success.
# Expected: the table has them, or the stack fails; a test of a template that looks at the table finds faults that aren't there.
# Source: CloudFormation's reference, AWS::DynamoDB::Table; read in moto.dynamodb.models.table.Table.create_from_cloudformation_json.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[cloudformation,dynamodb]==5.2.5' boto3==1.44.8
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python -W ignore - <<'PYTHON' | tee seen
import json
import boto3
from moto import mock_aws

TABLE = {"Type": "AWS::DynamoDB::Table", "Properties": {
    "TableName": "orders", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "TimeToLiveSpecification": {"AttributeName": "expires", "Enabled": True},
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}}

with mock_aws():
    formation, client = boto3.client("cloudformation"), boto3.client("dynamodb")
    formation.create_stack(StackName="shop", TemplateBody=json.dumps({"Resources": {"Orders": TABLE}}))
    print(formation.describe_stacks(StackName="shop")["Stacks"][0]["StackStatus"])
    print(client.describe_time_to_live(TableName="orders")["TimeToLiveDescription"])
    backups = client.describe_continuous_backups(TableName="orders")["ContinuousBackupsDescription"]
    print(backups["PointInTimeRecoveryDescription"])
PYTHON
diff seen - <<'SEEN'
CREATE_COMPLETE
{'TimeToLiveStatus': 'DISABLED'}
{'PointInTimeRecoveryStatus': 'DISABLED'}
SEEN
