#!/usr/bin/env bash
# Package: dynalite 4.0.0 (npm)
# Behaviour: UpdateItem with "REMOVE l[0], l[2]" removes the first and the fourth element: each index is applied to what the last one left.
# Expected: the first and the third go, in whatever order they're written, as DynamoDB's indexes are those of the item before the update.
# Source: Amazon DynamoDB developer guide, "Update expressions", removing elements from a list; read in dynalite's actions/updateItem.js.
set -euo pipefail
folder=$(mktemp -d)
server=
trap 'test -z "$server" || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check boto3==1.44.8
npm install --silent --no-audit --no-fund dynalite@4.0.0 >npm.txt
node node_modules/dynalite/cli.js --port 4567 --createTableMs 0 >dynalite.txt 2>&1 &
server=$!
for _ in {1..50}; do (: <>/dev/tcp/127.0.0.1/4567) 2>>dynalite.txt && break; sleep 0.2; done
env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python - <<'PYTHON' | tee seen
import boto3

client = boto3.client("dynamodb", endpoint_url="http://127.0.0.1:4567")
client.create_table(
    TableName="orders", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}])
client.get_waiter("table_exists").wait(TableName="orders", WaiterConfig={"Delay": 1})
for expression in ("REMOVE l[0], l[2]", "REMOVE l[2], l[0]"):
    client.put_item(TableName="orders", Item={"id": {"S": "o-1"}, "l": {"L": [{"S": letter} for letter in "abcd"]}})
    client.update_item(TableName="orders", Key={"id": {"S": "o-1"}}, UpdateExpression=expression)
    item = client.get_item(TableName="orders", Key={"id": {"S": "o-1"}})["Item"]
    print(expression, [element["S"] for element in item["l"]["L"]])
PYTHON
diff seen - <<'SEEN'
REMOVE l[0], l[2] ['b', 'c']
REMOVE l[2], l[0] ['b', 'd']
SEEN
