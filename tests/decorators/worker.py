"""A function of records, for every source: it collects their texts, and fails for some."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


def text_of(record: Any) -> Any:
    """The text that *record*, a data class of Powertools, was made of."""
    match record:
        case SQSRecord():
            return record.body
        case SNSEventRecord():
            return record.sns.message
        case KinesisStreamRecord():
            return record.kinesis.data_as_text()
        case DynamoDBRecord():
            image: Any = record.dynamodb and record.dynamodb.new_image
            return image.get("text", image["id"])
        case KafkaEventRecord():
            return record.decoded_value.decode()
        case ActiveMQMessage() | RabbitMessage():
            return record.decoded_data
        case {"Records": [{"s3": {"object": {"key": key}}}]}:
            return key
        case _:
            raise TypeError(f"no case of text_of reads a {type(record).__name__}: add one")


def worker(seen: list[str], broken: Collection[str] = (), *, is_async: bool = False) -> Any:
    """Return a function that collects the text of each record in *seen*, and raises for *broken* ones."""

    def work(record: Any) -> None:
        text = text_of(record)
        seen.append(text)
        if text in broken:
            raise ValueError(text)

    async def awaited(record: Any) -> None:
        await asyncio.to_thread(int)
        work(record)

    return awaited if is_async else work
