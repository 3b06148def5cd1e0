"""SNS FIFO and SQS FIFO: messages published in order, and batches processed in order."""

from lambda_once.patterns.fifo.in_order import work_in_order
from lambda_once.patterns.fifo.publisher import Publisher
from lambda_once.patterns.fifo.results import Failed, Sent, Unanswered, Unsent

__all__ = ["Failed", "Publisher", "Sent", "Unanswered", "Unsent", "work_in_order"]
