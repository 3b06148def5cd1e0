"""Charges orders from a queue, each once."""

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once

once = Once()


def take_money(order_id: str, cents: int, idempotency_key: str) -> None:
    """Call your payment provider here."""
    print(f"order {order_id}: took {cents} cents, idempotency key {idempotency_key}")


@once.sqs(key="orderId")
def charge(record: SQSRecord) -> None:
    """Charge one order: ``{"orderId": ..., "cents": ...}``."""
    order = record.json_body
    take_money(order["orderId"], order["cents"], once.current().downstream_key())
