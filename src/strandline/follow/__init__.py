"""Following the log: named readers with a checkpoint in the log's own database."""

from ..engine.following import DeadLetter, Transaction
from .asynchronous import AsyncFollower, AsyncTransaction
from .follower import Follower
from .status import FollowerStatus

__all__ = [
    "AsyncFollower",
    "AsyncTransaction",
    "DeadLetter",
    "Follower",
    "FollowerStatus",
    "Transaction",
]
