"""
A CDK app with the token table: a queue's function, one of another service, and the groups of operators.

Copy it beside token_table.py, tokens.yaml, function/ (examples/minimal) and layer.zip (make layer).
"""

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from token_table import TokenTable

app = App()
stack = Stack(app, "Shop")
notices = sns.Topic(stack, "Notices")
archive = lambda_.Code.from_asset("layer.zip")  # for Python 3.14 and arm64
layer = lambda_.LayerVersion(stack, "LambdaOnce", code=archive)
tokens = TokenTable(stack, "Tokens", service="orders", namespace="Orders", notices=notices, layer=layer)
payments = lambda_.Function(
    stack,
    "Payments",
    runtime=lambda_.Runtime.PYTHON_3_14,
    architecture=lambda_.Architecture.ARM_64,
    code=lambda_.Code.from_asset("function"),
    handler="payments.charge",
    timeout=Duration.seconds(30),
    layers=[layer],
    environment=tokens.variables,
)
tokens.grant(payments)
queue = sqs.Queue(
    stack,
    "PaymentsQueue",
    visibility_timeout=Duration.seconds(180),  # six times the function's timeout
    dead_letter_queue=sqs.DeadLetterQueue(
        max_receive_count=5,
        queue=sqs.Queue(stack, "PaymentsDeadLetters", retention_period=Duration.days(14)),
    ),
)
payments.add_event_source(SqsEventSource(queue, report_batch_item_failures=True, max_concurrency=10))
invoices = lambda_.Function(  # of another service
    stack,
    "Invoices",
    runtime=lambda_.Runtime.PYTHON_3_14,
    architecture=lambda_.Architecture.ARM_64,
    code=lambda_.Code.from_asset("function"),
    handler="payments.charge",
    layers=[layer],
    environment=tokens.variables | {"POWERTOOLS_SERVICE_NAME": "billing"},
)
tokens.grant(invoices, service="billing")
tokens.grant_listing(iam.Group(stack, "Support"))
tokens.grant_operation(iam.Group(stack, "OnCall"))
tokens.grant_erasure(iam.Group(stack, "Privacy"))
app.synth()
