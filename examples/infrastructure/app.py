"""
A CDK app with the token table, functions behind a queue, an HTTP API and a rule, and groups of operators.

Copy it beside token_table.py, tokens.yaml, function/ and layer.zip: docs/deploying.md. RUNTIME, ARCHITECTURE,
ISSUER and AUDIENCE are environment variables.
"""

import os

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_apigatewayv2_authorizers import HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from aws_cdk.aws_events_targets import LambdaFunction
from aws_cdk.aws_lambda_destinations import SqsDestination
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from token_table import TokenTable

runtime = os.environ.get("RUNTIME", "python3.14")  # of the functions, and of layer.zip
architecture = os.environ.get("ARCHITECTURE", "arm64")

app = App()
stack = Stack(app, "Shop")
notices = sns.Topic(stack, "Notices")
log_group = logs.LogGroup(stack, "Logs", retention=logs.RetentionDays.ONE_MONTH)
archive = lambda_.Code.from_asset("layer.zip")
layer = lambda_.LayerVersion(stack, "LambdaOnce", code=archive)


def failures(name: str) -> sqs.Queue:
    """Return a queue that keeps for 14 days what was given up."""
    return sqs.Queue(stack, name, retention_period=Duration.days(14))


dead_letters = failures("PaymentsDeadLetters")
tokens = TokenTable(
    stack,
    "Tokens",
    service="shop",
    namespace="Shop",
    notices=notices,
    layer=layer,
    parameters={
        "Runtime": runtime,  # of the layer
        "Architecture": architecture,
        "DeadLetterQueue": dead_letters.queue_name,  # has an alarm
    },
)


def protected(name: str, handler: str, environment: dict[str, str], **options: object) -> lambda_.Function:
    """Return a function that has lambda-once and knows the table."""
    return lambda_.Function(
        stack,
        name,
        handler=handler,
        code=lambda_.Code.from_asset("function"),
        runtime=lambda_.Runtime(runtime, lambda_.RuntimeFamily.PYTHON),
        architecture=lambda_.Architecture.custom(architecture),
        memory_size=512,
        timeout=Duration.seconds(29),  # an HTTP API gives up after 30
        layers=[layer],
        log_group=log_group,
        environment=environment,
        **options,
    )


# A queue
payments = protected("Payments", "payments.charge", tokens.variables)
tokens.grant(payments)
queue = sqs.Queue(
    stack,
    "PaymentsQueue",
    visibility_timeout=Duration.seconds(180),  # at least six times the function's timeout
    dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=5, queue=dead_letters),
)
payments.add_event_source(SqsEventSource(queue, report_batch_item_failures=True, max_concurrency=10))

# An HTTP API
orders = protected("Orders", "orders.create", tokens.variables)
tokens.grant(orders)
jwt = HttpJwtAuthorizer("Jwt", os.environ["ISSUER"], jwt_audience=[os.environ["AUDIENCE"]])
api = http.HttpApi(stack, "Api", default_authorizer=jwt, create_default_stage=False)
throttle = http.ThrottleSettings(burst_limit=100, rate_limit=50)
api.add_stage("Stage", stage_name="$default", auto_deploy=True, throttle=throttle)
api.add_routes(
    path="/orders", methods=[http.HttpMethod.POST], integration=HttpLambdaIntegration("Create", orders)
)

# A rule of EventBridge: what the function fails on, and what the rule couldn't deliver, go to one queue
failed = failures("FailedShipments")
shipments = protected("Shipments", "shipments.ship", tokens.variables, on_failure=SqsDestination(failed))
tokens.grant(shipments)
rule = events.Rule(
    stack, "Paid", event_pattern=events.EventPattern(source=["shop.orders"], detail_type=["OrderPaid"])
)
rule.add_target(LambdaFunction(shipments, dead_letter_queue=failed))

# A function of another service, and people
invoices = protected("Invoices", "payments.charge", tokens.variables | {"POWERTOOLS_SERVICE_NAME": "billing"})
tokens.grant(invoices, service="billing")
tokens.grant_listing(iam.Group(stack, "Support"))
tokens.grant_operation(iam.Group(stack, "OnCall"))
tokens.grant_erasure(iam.Group(stack, "Privacy"))
app.synth()
