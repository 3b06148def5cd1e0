#!/usr/bin/env bash
# Package: aws-kinesis-agg 1.2.3
# Behaviour: the records of one aggregated Kinesis record all have its eventID and sequenceNumber: only subSequenceNumber, which isn't in
#   Lambda's own records, tells them apart.
# Expected: an eventID of one's own for each user record: where it is an idempotency key, all but the first look like duplicates and are
#   dropped.
# Source: Amazon Kinesis developer guide, consumer de-aggregation; read in aws_kinesis_agg.deaggregator._create_user_record.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-kinesis-agg==1.2.3 protobuf==7.36.2 six==1.17.0
venv/bin/python -W ignore - <<'PYTHON' | tee seen
import base64, json
from aws_kinesis_agg.aggregator import RecordAggregator
from aws_kinesis_agg.deaggregator import deaggregate_records

aggregator = RecordAggregator()
for order in (1, 2, 3):
    aggregator.add_user_record("customer-1", json.dumps({"order": order}).encode())
partition, _, data = aggregator.clear_and_get().get_contents()
record = {
    "eventID": "shardId-000000000000:495903382714", "eventSource": "aws:kinesis", "eventVersion": "1.0", "eventName": "aws:kinesis:record",
    "kinesis": {"partitionKey": partition, "sequenceNumber": "495903382714", "kinesisSchemaVersion": "1.0",
                "approximateArrivalTimestamp": 1.5, "data": base64.b64encode(data).decode()}}
for each in deaggregate_records([record]):
    print(each["eventID"], each["kinesis"]["sequenceNumber"], each["kinesis"]["subSequenceNumber"], base64.b64decode(each["kinesis"]["data"]))
PYTHON
diff seen - <<'SEEN'
shardId-000000000000:495903382714 495903382714 0 b'{"order": 1}'
shardId-000000000000:495903382714 495903382714 1 b'{"order": 2}'
shardId-000000000000:495903382714 495903382714 2 b'{"order": 3}'
SEEN
