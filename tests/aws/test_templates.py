"""What a run deploys: CloudFormation takes both templates, and their code lies in the run's bucket."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import boto3
import pytest
from moto import mock_aws

from lambda_once.testing import FakeClock
from tests.aws import archives
from tests.aws.account import REGION
from tests.aws.stacks import PROBES, SAMPLE, Aws, delete_bucket, sample_in, template, upload
from tests.stack.test_template import complaints

BUCKET = "lambda-once-1a2b3c4d5e6f"
MOST_BYTES = 51_200
"""Of a template that comes with its request (CloudFormation quotas)."""


@pytest.mark.parametrize("body", [sample_in(BUCKET), template(PROBES)], ids=["sample", "probes"])
def test_a_template_fits_into_its_request(body: dict[str, Any]) -> None:
    """Nothing has to be put into S3 for it."""
    assert len(json.dumps(body)) < MOST_BYTES


def test_the_probes_template_is_sound() -> None:
    """cfn-lint has nothing to say about what is sent."""
    assert complaints(json.dumps(template(PROBES))) == []


def test_sam_takes_the_sample_with_its_code_in_the_bucket() -> None:
    """Each function and the layer come from the bucket; the sample itself isn't changed."""
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    session = boto3.Session(region_name=REGION)
    translated = Translator({}, Parser(), boto_session=session).translate(sample_in(BUCKET), {})
    resources = translated["Resources"].values()
    codes = [each["Properties"]["Code"] for each in resources if each["Type"] == "AWS::Lambda::Function"]
    layers = [
        each["Properties"]["Content"] for each in resources if each["Type"] == "AWS::Lambda::LayerVersion"
    ]
    assert codes == [{"S3Bucket": BUCKET, "S3Key": "sample.zip"}] * 4
    assert layers == [{"S3Bucket": BUCKET, "S3Key": "layer.zip"}]
    assert template(SAMPLE)["Globals"]["Function"]["CodeUri"] == "examples/"


def test_the_probes_role_is_the_samples_for_another_service() -> None:
    """What is tried is what is published: the statements about tokens differ by the service alone."""
    published = template(SAMPLE)["Resources"]["TokenAccess"]["Properties"]["PolicyDocument"]["Statement"]
    (policy,) = template(PROBES)["Resources"]["Role"]["Properties"]["Policies"]
    tried = policy["PolicyDocument"]["Statement"][: len(published)]
    for theirs, ours in zip(published, tried, strict=True):
        assert sorted([ours["Action"]] if isinstance(ours["Action"], str) else ours["Action"]) == sorted(
            [theirs["Action"]] if isinstance(theirs["Action"], str) else theirs["Action"]
        )
        assert json.dumps(ours["Condition"]).replace("probes/", "orders/") == json.dumps(theirs["Condition"])


def test_the_bucket_is_s3s() -> None:
    """Moto takes the requests that the played account answers: in a region, and in the one without a name."""
    for region in (REGION, "us-east-1"):
        with mock_aws():
            s3 = boto3.Session("testing", "testing", region_name=region).client("s3")
            aws = Aws({"s3": s3}.__getitem__, lambda _: None, region, FakeClock(), lambda _: None)
            upload(aws, BUCKET, {"layer.zip": b"1", "crt.zip": b"2"})
            assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 2
            assert delete_bucket(aws, BUCKET)
            assert not delete_bucket(aws, BUCKET)
            assert s3.list_buckets()["Buckets"] == []


def test_awscrt_is_pinned_with_its_hashes() -> None:
    """The archive of crt's layer is the locked one."""
    pin = archives._pin(archives.LOCK.read_text(encoding="utf-8"))
    assert pin.startswith("awscrt==")
    assert pin.count("--hash=sha256:") > 5
    assert pin.count("==") == 1


def test_an_archive_has_no_bytecode(tmp_path: Path) -> None:
    """Nor what SAM and Terraform put there; and Lambda's user may read it, whatever the umask was."""
    for name in (
        "orders/api.py",
        "orders/__pycache__/api.pyc",
        ".aws-sam/build/api.py",
        "t/.terraform/p.py",
        "t/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
        (tmp_path / name).chmod(0o600)

    (entry,) = ZipFile(BytesIO(archives._zipped(tmp_path, "*.py"))).infolist()
    assert entry.filename == "orders/api.py"
    assert entry.external_attr >> 16 & 0o777 == 0o644
