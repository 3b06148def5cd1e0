#!/usr/bin/env bash
# Package: cfn-lint 1.58.0
# Behaviour: in a SAM template the properties of a function's SQS event aren't checked, though Lambda refuses them; in the same mapping
#   written as CloudFormation they're found.
# Expected: the faults are found in both: the README says that a SAM template is transformed before it's linted. Lint what SAM makes of it.
# Source: README, "Serverless Application Model"; pull request 4636 (since 1.54.0 SAM isn't translated any more); read in
#   cfnlint.template.transforms.transform.Transform.transform.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check cfn-lint==1.58.0
cat >sam.yaml <<'YAML'
Transform: AWS::Serverless-2016-10-31
Resources:
  Queue: {Type: AWS::SQS::Queue}
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: python3.13
      Handler: app.handler
      InlineCode: "def handler(event, context): pass"
      Events:
        Orders: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn, BatchSize: 10, MaximumBatchingWindowInSeconds: 999}}
YAML
cat >cloudformation.yaml <<'YAML'
Resources:
  Queue: {Type: AWS::SQS::Queue}
  Mapping:
    Type: AWS::Lambda::EventSourceMapping
    Properties: {FunctionName: worker, EventSourceArn: !GetAtt Queue.Arn, BatchSize: 10, MaximumBatchingWindowInSeconds: 999}
YAML
for template in sam cloudformation; do
    if venv/bin/cfn-lint --format parseable $template.yaml >faults; then echo "$template: no fault"; fi
    sed "s/.*:/$template: /" faults
done | tee seen
diff seen - <<'SEEN'
sam: no fault
cloudformation: 999 is greater than the maximum of 300
SEEN
