"""Following the log: named readers with a checkpoint in the log's own database."""

from ..engine.following import DeadLetter, Transaction
from .asynchronous import AsyncFollower, AsyncTransaction
from .automation import Call
from .delivery import Undeliverable
from .follower import Follower
from .leasing import Leased
from .models.read_model import ReadModel
from .ndjson_file import NdjsonFile
from .outbox import Publisher
from .status import FollowerStatus
from .token import InvalidToken
from .webhook import Webhook, verify_signature
from .worker import AsyncWorker, Worker

__all__ = [
    "AsyncFollower",
    "AsyncTransaction",
    "AsyncWorker",
    "Call",
    "DeadLetter",
    "Follower",
    "FollowerStatus",
    "InvalidToken",
    "Leased",
    "NdjsonFile",
    "Publisher",
    "ReadModel",
    "Transaction",
    "Undeliverable",
    "Webhook",
    "Worker",
    "verify_signature",
]
