"""
The token table of lambda-once for AWS CDK, version 2: copy this file and tokens.yaml into your app.

    tokens = TokenTable(stack, "Tokens", service="shop", namespace="Shop", notices=topic, layer=layer)
    function = lambda_.Function(stack, "Payments", environment=tokens.variables, layers=[layer], ...)
    tokens.grant(function)
"""

from __future__ import annotations

import re
from pathlib import Path

from aws_cdk import NestedStack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk.cloudformation_include import CfnInclude
from constructs import Construct

TOKENS = ("GetItem", "UpdateItem", "BatchGetItem", "PartiQLInsert", "PartiQLUpdate")
PARTS = ("BatchWriteItem",)
"""The actions of TokenAccess in tokens.yaml, for services that are not the table's own."""


class TokenTable(NestedStack):
    """
    tokens.yaml as a nested stack: the table, which outlives the stack, its policies, watchdog and alarms.

    *service* and *namespace* are POWERTOOLS_SERVICE_NAME and POWERTOOLS_METRICS_NAMESPACE of the functions,
    and *notices* is the topic that the alarms notify. *layer* has lambda-once, for Python 3.14 and arm64;
    without it there is no watchdog. *parameters* are further ones of tokens.yaml: {"WatchdogRelease":
    "payments-*"}.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: str,
        namespace: str,
        notices: sns.ITopic,
        layer: lambda_.ILayerVersion | None = None,
        parameters: dict[str, str] | None = None,
    ) -> None:
        given = {
            "Service": service,
            "MetricsNamespace": namespace,
            "NoticesTopicArn": notices.topic_arn,
            "LayerArn": layer.layer_version_arn if layer else "",
        }
        super().__init__(scope, construct_id, parameters={**given, **(parameters or {})})
        self._service = service
        self._template = CfnInclude(
            self, "Template", template_file=str(Path(__file__).with_name("tokens.yaml"))
        )
        self.variables = {
            "LAMBDA_ONCE_TABLE": self._template.get_resource("TokenTable").ref,
            "LAMBDA_ONCE_LISTING": "stream" if layer else "at_once",  # without the layer there is no watchdog
            "POWERTOOLS_SERVICE_NAME": service,
            "POWERTOOLS_METRICS_NAMESPACE": namespace,
        }
        """The environment variables of every protected function."""

    def grant(self, function: iam.IGrantable, service: str | None = None) -> None:
        """
        Allow *function*, which is protected, to acquire, finish and replay tokens of *service*, and no more.

        *service* is its POWERTOOLS_SERVICE_NAME, by default that of the table. Raises ValueError for one that
        tokens.yaml would refuse.
        """
        if service in (None, self._service):
            self._attach("TokenAccess", function)
            return
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", service):
            raise ValueError(f"service={service!r}: use letters, digits and _ . - alone, at most 64")
        table = self._template.get_resource("TokenTable").get_att("Arn").to_string()
        for actions, keys in ((TOKENS, f"{service}/*"), (PARTS, f"{service}/*#*#*")):
            function.grant_principal.add_to_principal_policy(
                iam.PolicyStatement(
                    actions=[f"dynamodb:{action}" for action in actions],
                    resources=[table],
                    conditions={
                        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [keys]},
                        "Null": {"dynamodb:LeadingKeys": "false"},
                    },
                )
            )

    def grant_listing(self, operators: iam.IGrantable) -> None:
        """Allow *operators*, a group or a role, to list and show tokens, without results and errors."""
        self._attach("TokenListing", operators)

    def grant_operation(self, operators: iam.IGrantable) -> None:
        """Allow *operators*, a group or a role, to use the command line."""
        self._attach("TokenOperation", operators)

    def grant_erasure(self, operators: iam.IGrantable) -> None:
        """Allow *operators*, beside `grant_operation`, to delete tokens whose keys are personal data."""
        self._attach("TokenErasure", operators)

    def _attach(self, policy: str, grantee: iam.IGrantable) -> None:
        arn = self._template.get_resource(policy).ref
        attached = iam.ManagedPolicy.from_managed_policy_arn(grantee, policy, arn)
        grantee.grant_principal.add_managed_policy(attached)
