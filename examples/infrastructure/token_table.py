"""
The token table of lambda-once for AWS CDK, version 2: copy this file into your app.

    tokens = TokenTable(stack, "Tokens", service="shop", namespace="Shop", notices=topic)
    function = lambda_.Function(stack, "Payments", environment=tokens.environment, layers=[layer], ...)
    tokens.grant(function)
    tokens.watch(layer)

Table, permissions and alarms are those of the sample stack, template.yaml.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

INDEX = "byStatus"
PARTS_ALONE = {
    "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["*#*#*"]},
    "Null": {"dynamodb:LeadingKeys": "false"},  # ForAllValues holds where there is no key at all
}
"""BatchWriteItem puts and deletes: it is for part rows, whose keys have # (a token's are percent-encoded)."""


class TokenTable(Construct):
    """
    The table, which outlives its stack, and the alarms on what the functions of *service* count.

    *service* and *namespace* are POWERTOOLS_SERVICE_NAME and POWERTOOLS_METRICS_NAMESPACE of the functions,
    *status_shards* is their LAMBDA_ONCE_STATUS_SHARDS, and *notices* the topic that the alarms notify.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: str,
        namespace: str,
        notices: sns.ITopic,
        status_shards: int = 1,
        errors_threshold: int = 5,
    ) -> None:
        super().__init__(scope, construct_id)
        self.table = self._table()
        self.environment = {
            "LAMBDA_ONCE_TABLE": self.table.table_name,
            "LAMBDA_ONCE_STATUS_SHARDS": str(status_shards),
            "POWERTOOLS_SERVICE_NAME": service,
            "POWERTOOLS_METRICS_NAMESPACE": namespace,
        }
        """The environment of every protected function."""
        self._notices = notices
        self._count(
            "WorkFailing",
            "errors",
            "The work itself raises too often.",
            threshold=errors_threshold,
        )
        self._count(
            "Fenced",
            "fenced",
            "An attempt lost its token while it worked: leases are too short, or clocks differ. Both "
            "attempts may have done the work.",
        )
        self._count(
            "CompletionFailed",
            "completionFailed",
            "Work was done, but its token could not be completed: it will look overdue. Its log lines have "
            "what was done.",
        )
        self._count(
            "StoreUnavailable",
            "storeUnavailable",
            "The token table did not answer in time, in two of three periods of five minutes: throttled or "
            "out of reach. Nothing ran.",
            evaluation_periods=3,
            datapoints_to_alarm=2,
        )
        self._count(
            "Misconfigured",
            "misconfigured",
            "A function cannot work: its token table is missing, a permission is, or its key= raises. The "
            "log line once.misconfigured has which.",
        )
        self._count(
            "ProtectionOff",
            "disabled",
            "A function runs with LAMBDA_ONCE_DISABLED: duplicates run again.",
        )

    def grant(self, grantee: iam.IGrantable) -> None:
        """Allow *grantee*, a protected function, to acquire, finish and replay tokens, and no more."""
        self._allow(
            grantee,
            ["GetItem", "UpdateItem", "BatchGetItem", "PartiQLInsert", "PartiQLUpdate"],
        )
        self._allow(grantee, ["BatchWriteItem"], conditions=PARTS_ALONE)

    def grant_operation(self, grantee: iam.IGrantable) -> None:
        """Allow *grantee*, a person on call, to use the command line."""
        self._allow(grantee, ["Query"], f"{self.table.table_arn}/index/{INDEX}")
        self._allow(grantee, ["GetItem", "UpdateItem", "BatchGetItem", "Scan", "DescribeTable"])
        self._allow(grantee, ["BatchWriteItem"], conditions=PARTS_ALONE)

    def watch(
        self,
        layer: lambda_.ILayerVersion,
        *,
        runtime: lambda_.Runtime = lambda_.Runtime.PYTHON_3_14,
        architecture: lambda_.Architecture = lambda_.Architecture.ARM_64,
        release: str = "",
        overdue_seconds: int = 3600,
    ) -> lambda_.Function:
        """
        Count overdue and held tokens every five minutes, and alarm on them.

        *layer* has lambda-once, for *runtime* and *architecture*. *release* names the functions whose overdue
        tokens are released, with commas, * and ? allowed: leave out those whose work must not run twice.
        """
        watchdog = lambda_.Function(
            self,
            "WatchdogFunction",
            description="Counts and reports overdue and held tokens, and releases those that it may.",
            code=lambda_.Code.from_inline("# The code is in the layer."),
            handler="lambda_once.operations.watchdog.handler",
            runtime=runtime,
            architecture=architecture,
            layers=[layer],
            memory_size=512,
            timeout=Duration.seconds(60),
            retry_attempts=0,  # the next run is the retry
            environment={
                **self.environment,
                "LAMBDA_ONCE_WATCHDOG_RELEASE": release,
                "LAMBDA_ONCE_WATCHDOG_SWEEP": "false",  # the table has TTL
            },
        )
        self._allow(watchdog, ["Query"], f"{self.table.table_arn}/index/{INDEX}")
        self._allow(watchdog, ["BatchGetItem", "UpdateItem", "GetItem"])
        events.Rule(
            self,
            "EveryFiveMinutes",
            schedule=events.Schedule.rate(Duration.minutes(5)),
            targets=[targets.LambdaFunction(watchdog)],
        )
        self._alarm_on(watchdog, overdue_seconds)
        return watchdog

    def _table(self) -> dynamodb.Table:
        text = dynamodb.AttributeType.STRING
        table = dynamodb.Table(
            self,
            "TokenTable",
            partition_key=dynamodb.Attribute(name="lockToken", type=text),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="ttl",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,  # without its tokens every duplicate runs again
        )
        table.add_global_secondary_index(  # sparse: a finished token has no status
            index_name=INDEX,
            partition_key=dynamodb.Attribute(name="status", type=text),
            sort_key=dynamodb.Attribute(name="expectedCompletion", type=text),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=["lockedBy", "created", "attempt"],
        )
        return table

    def _allow(
        self, grantee: iam.IGrantable, verbs: list[str], resource: str | None = None, **condition: Any
    ) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[f"dynamodb:{verb}" for verb in verbs],
            resource_arns=[resource or self.table.table_arn],
            **condition,
        )

    def _alarm_on(self, watchdog: lambda_.Function, overdue_seconds: int) -> None:
        counted = {
            "namespace": self.environment["POWERTOOLS_METRICS_NAMESPACE"],
            "dimensions": [
                _dimension("service", self.environment["POWERTOOLS_SERVICE_NAME"]),
                _dimension("function", watchdog.function_name),
            ],
        }
        self._alarm(
            "MissingTasks",
            "Tasks have been overdue for two runs of the watchdog. lambda-once list --overdue.",
            **counted,
            metric_name="missingTasks",
            statistic="Maximum",
            evaluation_periods=2,
            datapoints_to_alarm=2,
            treat_missing_data="ignore",
        )
        self._alarm(
            "OldestOverdue",
            f"A task is overdue by longer than {overdue_seconds} seconds. lambda-once list --overdue shows "
            "the oldest first.",
            **counted,
            metric_name="oldestOverdueSeconds",
            statistic="Maximum",
            datapoints_to_alarm=1,
            threshold=overdue_seconds,
            treat_missing_data="ignore",
        )
        self._alarm(
            "HeldTokens",
            "Tokens need manual review. lambda-once list --held, show TOKEN, resolve TOKEN.",
            **counted,
            metric_name="heldTokens",
            statistic="Maximum",
            datapoints_to_alarm=1,
            treat_missing_data="ignore",
        )
        self._alarm(
            "WatchdogSilent",
            "No run of the watchdog has reported for 15 minutes: overdue and held tokens are not counted. On "
            "a new stack it rings until the first run, for five minutes at most.",
            **counted,
            metric_name="missingTasks",
            statistic="SampleCount",
            evaluation_periods=3,
            datapoints_to_alarm=3,
            comparison_operator="LessThanThreshold",
            threshold=1,
            treat_missing_data="breaching",
        )
        self._alarm(
            "WatchdogFailing",
            "The watchdog fails repeatedly. Its log lines name what it could not read or write.",
            namespace="AWS/Lambda",
            metric_name="Errors",
            dimensions=[_dimension("FunctionName", watchdog.function_name)],
            statistic="Sum",
            evaluation_periods=3,
            datapoints_to_alarm=2,
        )

    def _count(self, name: str, metric: str, description: str, **properties: Any) -> None:
        """Alarm on *metric*, over all functions of the service."""
        namespace = self.environment["POWERTOOLS_METRICS_NAMESPACE"]
        service = self.environment["POWERTOOLS_SERVICE_NAME"]
        query = (
            f'SELECT SUM("{metric}") FROM SCHEMA("{namespace}", "service", "function") '
            f"WHERE \"service\" = '{service}'"
        )
        total = cloudwatch.CfnAlarm.MetricDataQueryProperty(
            id="sum", expression=query, period=300, return_data=True
        )
        self._alarm(name, description, metrics=[total], **properties)

    def _alarm(self, name: str, description: str, **properties: Any) -> None:
        topic = [self._notices.topic_arn]
        usual = {
            "comparison_operator": "GreaterThanThreshold",
            "evaluation_periods": 1,
            "threshold": 0,
            "treat_missing_data": "notBreaching",
            "alarm_actions": topic,
            "ok_actions": topic,
        }
        if "metric_name" in properties:
            usual["period"] = 300
        cloudwatch.CfnAlarm(self, name, alarm_description=description, **{**usual, **properties})


def _dimension(name: str, value: str) -> cloudwatch.CfnAlarm.DimensionProperty:
    return cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value)
