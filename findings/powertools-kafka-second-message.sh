#!/usr/bin/env bash
# Package: aws-lambda-powertools 3.37.0
# Behaviour: under Confluent's frame the Kafka consumer reads only the first message type of a .proto file: it takes the message indexes,
#   which are zigzag varints, for plain ones, skips too many bytes and fails to decode the rest.
# Expected: a value of the file's second message (indexes [1], bytes 02 02) is read like one of the first (byte 00).
# Source: Confluent's "Formats, serializers and deserializers", wire format of Protobuf; read in
#   aws_lambda_powertools.utilities.kafka.deserializer.protobuf.ProtobufDeserializer._remove_message_index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'aws-lambda-powertools[kafka-consumer-protobuf]==3.37.0' protobuf==7.36.2
venv/bin/python -W ignore - <<'PYTHON' | tee seen
import base64
from aws_lambda_powertools.utilities.kafka import SchemaConfig, kafka_consumer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
for name in ("Placed", "Cancelled"):
    file.message_type.add(name=name).field.add(name="order", number=1, type=9, label=1)
pool = descriptor_pool.DescriptorPool()
pool.Add(file)

for indexes, name in ((b"\0", "Placed"), (b"\2\2", "Cancelled")):
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
    value = base64.b64encode(indexes + message(order="o-1").SerializeToString()).decode()
    record = {"topic": "orders", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": "CREATE_TIME", "headers": [],
              "key": None, "value": value, "valueSchemaMetadata": {"dataFormat": "PROTOBUF", "schemaId": "8"}}
    event = {"eventSource": "aws:kafka", "eventSourceArn": "arn:aws:kafka:eu-west-1:123456789012:cluster/shop/1",
             "bootstrapServers": "b-1:9092", "records": {"orders-0": [record]}}
    read = kafka_consumer(schema_config=SchemaConfig(value_schema_type="PROTOBUF", value_schema=message))
    try:
        print(name, read(lambda event, _: next(event.records).value)(event, None))
    except Exception as error:
        print(name, type(error).__name__)
PYTHON
diff seen - <<'SEEN'
Placed {'order': 'o-1'}
Cancelled KafkaConsumerDeserializationError
SEEN
