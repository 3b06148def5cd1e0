#!/usr/bin/env bash
# Package: botocore 1.35.99 and 1.44.8
# Behaviour: by default the older one sends a throttled DynamoDB request ten times, the newer four: its default mode is "standard".
# Expected: ten, as boto3's guide still says that the mode "legacy" is the default, and botocore's data/_retry.json has 10 for DynamoDB;
#   what ten tries got through now raises after four. AWS_RETRY_MODE=legacy has them back.
# Source: boto3's guide, "Retries"; read in botocore.args.ClientArgsCreator._compute_retry_mode and botocore.retries.standard.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >count.py <<'PYTHON'
import time
import botocore.session
from botocore.awsrequest import AWSResponse

class Body:
    def stream(self, **_):
        yield b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}'

time.sleep = lambda seconds: None
tries = []
client = botocore.session.Session().create_client("dynamodb")
client.meta.events.register("before-send", lambda request, **_: tries.append(1) or AWSResponse(request.url, 400, {}, Body()))
try:
    client.get_item(TableName="orders", Key={"id": {"S": "o-1"}})
except client.exceptions.ProvisionedThroughputExceededException:
    print(botocore.__version__, len(tries))
PYTHON
for version in 1.35.99 1.44.8; do
    python3 -m venv --clear venv
    venv/bin/pip install --quiet --no-compile --disable-pip-version-check botocore==$version
    env -i HOME="$folder" AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any venv/bin/python count.py
done | tee seen
diff seen - <<'SEEN'
1.35.99 10
1.44.8 4
SEEN
