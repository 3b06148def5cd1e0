#!/usr/bin/env bash
# Package: aws-sam-translator 1.115.0
# Behaviour: an SNS event with SqsSubscription loses FunctionResponseTypes and ScalingConfig without a word; written beside
#   SqsSubscription, the same property is refused.
# Expected: both reach the event source mapping, as for an event of type SQS, or are refused like other unknown properties: without
#   ReportBatchItemFailures Lambda deletes the messages that the function reported as failed.
# Source: AWS SAM developer guide, SqsSubscriptionObject and SQS; read in samtranslator.model.eventsources.push.SNS.to_cloudformation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check aws-sam-translator==1.115.0
env AWS_DEFAULT_REGION=eu-west-1 venv/bin/python -W ignore - <<'PYTHON' | tee seen
from types import SimpleNamespace
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform

BATCHES = {"FunctionResponseTypes": ["ReportBatchItemFailures"], "ScalingConfig": {"MaximumConcurrency": 2}}
QUEUE = {"QueueArn": {"Fn::GetAtt": ["Queue", "Arn"]}, "QueueUrl": {"Ref": "Queue"}}

def translate(event):
    function = {"Runtime": "python3.13", "Handler": "app.handler", "InlineCode": "-", "Role": "arn:aws:iam::123456789012:role/r"}
    return transform({"Transform": "AWS::Serverless-2016-10-31", "Resources": {
        "Worker": {"Type": "AWS::Serverless::Function", "Properties": function | {"Events": {"Orders": event}}}}},
        {}, SimpleNamespace(load=dict))["Resources"].values()

for event in (
    {"Type": "SQS", "Properties": {"Queue": QUEUE["QueueArn"], **BATCHES}},
    {"Type": "SNS", "Properties": {"Topic": {"Ref": "Topic"}, "SqsSubscription": QUEUE | BATCHES}},
    {"Type": "SNS", "Properties": {"Topic": {"Ref": "Topic"}, "SqsSubscription": QUEUE, **BATCHES}},
):
    try:
        (mapping,) = (each["Properties"] for each in translate(event) if each["Type"] == "AWS::Lambda::EventSourceMapping")
        print(event["Type"], {name: mapping.get(name) for name in BATCHES})
    except InvalidDocumentException as error:
        print(error.causes[0].message)
PYTHON
diff seen - <<'SEEN'
SQS {'FunctionResponseTypes': ['ReportBatchItemFailures'], 'ScalingConfig': {'MaximumConcurrency': 2}}
SNS {'FunctionResponseTypes': None, 'ScalingConfig': None}
Resource with id [WorkerOrders] is invalid. property FunctionResponseTypes not defined for resource of type SNS
SEEN
