"""SNS FIFO and SQS FIFO: messages published in their order, and batches worked in it."""

from lambda_once.patterns.fifo.in_order import work_in_order
from lambda_once.patterns.fifo.publisher import Publisher, Refused, Sent, Unanswered, Unsent

__all__ = ["Publisher", "Refused", "Sent", "Unanswered", "Unsent", "work_in_order"]
