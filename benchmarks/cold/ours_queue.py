"""A queue function with lambda-once, Logger and Metrics."""

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once

logger = Logger()
metrics = Metrics()
once = Once(logger=logger, metrics=metrics)


@logger.inject_lambda_context
@once.sqs
def handler(record: SQSRecord) -> None:
    pass
