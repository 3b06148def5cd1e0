#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: VpcLatticeV2Model refuses a VPC Lattice event of version 2.0: its headers and query parameters are lists of texts, the
#   model's are texts.
# Expected: the model reads the event that the service's guide documents.
# Source: Amazon VPC Lattice user guide, "Lambda functions as targets", example event V2; read in
#   aws_lambda_powertools.utilities.parser.models.vpc_latticev2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'aws-lambda-powertools[parser]==3.37.0' pydantic==2.13.5
venv/bin/python -W ignore - <<'PYTHON' | tee seen
from aws_lambda_powertools.utilities.parser.models import VpcLatticeV2Model
from pydantic import ValidationError

ARN = "arn:aws:vpc-lattice:eu-west-1:123456789012:"
EVENT = {
    "version": "2.0", "path": "/orders", "method": "POST", "body": "{}", "isBase64Encoded": False,
    "headers": {"accept": ["*/*"]}, "queryStringParameters": {"size": ["5"]},
    "requestContext": {
        "serviceNetworkArn": ARN + "servicenetwork/sn-0123456789abcdef0", "serviceArn": ARN + "service/svc-0123456789abcdef0",
        "targetGroupArn": ARN + "targetgroup/tg-0123456789abcdef0", "region": "eu-west-1", "timeEpoch": "1690497599177430",
        "identity": {"sourceVpcArn": "arn:aws:ec2:eu-west-1:123456789012:vpc/vpc-0123456789abcdef0"}}}
try:
    print(VpcLatticeV2Model.model_validate(EVENT).headers)
except ValidationError as error:
    for each in error.errors():
        print(each["loc"], each["type"], each["input"])
PYTHON
diff seen - <<'SEEN'
('headers', 'accept') string_type ['*/*']
('queryStringParameters', 'size') string_type ['5']
SEEN
