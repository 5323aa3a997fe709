"""The wallet as a REST API: Crablet's routes and statuses, on the commands of wallet.py.

    PUT  /api/wallets/{wallet_id}               {"owner", "initial_balance"}   201, 200 for a repeat
    GET  /api/wallets/{wallet_id}                                              200
    GET  /api/wallets/{wallet_id}/history       ?after=&limit=                 200
    POST /api/wallets/{wallet_id}/deposits      {"deposit_id", "amount"}       201, 200 for a repeat
    POST /api/wallets/{wallet_id}/withdrawals   {"withdrawal_id", "amount"}    201, 200 for a repeat
    POST /api/wallets/transfers                 {"transfer_id", "from_wallet_id", "to_wallet_id", "amount"}

Every operation has an id that its client chose. It is done once, however often it is sent. A refusal is a problem
document: 400 for too little money or a bad request, 404 for a wallet that is not open, 409 for a conflict.

    cd examples
    STRANDLINE_URL=wallets.db uvicorn --factory wallet_http.app:create
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import strandline
from strandline import AsyncEventStore, Command, DomainEvent, Executed, IdempotencyKeyReused, StrandlineError
from wallet import (
    Deposited,
    InsufficientFunds,
    InvalidAmount,
    MoneyTransferred,
    Refused,
    SameWallet,
    Status,
    Wallet,
    WalletExists,
    WalletId,
    WalletNotOpen,
    Withdrawn,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)

VARIABLE = "STRANDLINE_URL"
ATTEMPTS = 20

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Money = Annotated[int, Meta(ge=1, le=10**15)]
T = TypeVar("T")


class Opening(Struct):
    owner: str
    initial_balance: Annotated[int, Meta(ge=0, le=10**15)] = 0


class Deposit(Struct):
    deposit_id: Id
    amount: Money


class Withdrawal(Struct):
    withdrawal_id: Id
    amount: Money


class Transfer(Struct):
    transfer_id: Id
    from_wallet_id: Id
    to_wallet_id: Id
    amount: Money


class Page(Struct):
    """A page of a history: the events behind a position."""

    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class Entry(Struct):
    """An event of a history."""

    position: int
    type: str
    recorded_at: datetime
    data: Raw


class OtherOperation(Refused):
    """The id of an operation was sent again with other values."""


REFUSALS: dict[type[Refused], tuple[int, str]] = {
    InsufficientFunds: (400, "Insufficient funds"),
    InvalidAmount: (400, "Invalid amount"),
    SameWallet: (400, "A transfer needs two wallets"),
    WalletNotOpen: (404, "There is no such wallet"),
    WalletExists: (409, "The wallet belongs to another owner, or was closed"),
    OtherOperation: (409, "This id belongs to another operation"),
}


async def open_one(request: Request) -> Response:
    """Open a wallet. The same owner may ask again."""
    opening = await body_of(request, Opening)
    wallet = Status(wallet_id(request))
    done = await store_of(request).execute(
        open_wallet.with_options(attempts=ATTEMPTS), wallet, opening.owner, opening.initial_balance
    )
    return answer({"wallet_id": wallet.id, "owner": opening.owner}, 201 if done.count else 200)


async def show(request: Request) -> Response:
    """Show what a wallet holds."""
    wallet = await store_of(request).project(Wallet(wallet_id(request)))
    if not wallet.is_open:
        raise WalletNotOpen(wallet.id)
    return answer({"wallet_id": wallet.id, "owner": wallet.owner, "balance": wallet.cents})


async def history(request: Request) -> Response:
    """Show the events of a wallet, page by page."""
    page = msgspec.convert(dict(request.query_params), Page, strict=False)
    wallet = Wallet(wallet_id(request))
    read = await store_of(request).read(wallet.query(), after=page.after, limit=page.limit)
    events = await read.all_events()
    if not events and not page.after:
        raise WalletNotOpen(wallet.id)
    entries = [Entry(event.position, event.type, event.recorded_at, Raw(event.data)) for event in events]
    after = events[-1].position if len(events) == page.limit else None
    return answer({"wallet_id": wallet.id, "events": entries, "next": after})


async def pay_in(request: Request) -> Response:
    """Put money in. Deposits never conflict with each other."""
    paid = await body_of(request, Deposit)
    event = Deposited(wallet=wallet_id(request), cents=paid.amount)
    done = await store_of(request).execute(once(deposit, paid.deposit_id), Status(event.wallet), paid.amount)
    return await answer_once(request, done, event)


async def pay_out(request: Request) -> Response:
    """Take money out."""
    paid = await body_of(request, Withdrawal)
    event = Withdrawn(wallet=wallet_id(request), cents=paid.amount)
    done = await store_of(request).execute(
        once(withdraw, paid.withdrawal_id), Wallet(event.wallet), paid.amount
    )
    return await answer_once(request, done, event)


async def move(request: Request) -> Response:
    """Move money from one wallet to another."""
    asked = await body_of(request, Transfer)
    source, target = WalletId(asked.from_wallet_id), WalletId(asked.to_wallet_id)
    event = MoneyTransferred(source=source, target=target, cents=asked.amount)
    done = await store_of(request).execute(
        once(transfer, asked.transfer_id), Wallet(source), Status(target), asked.amount
    )
    return await answer_once(request, done, event)


def once(decision: Command[..., Any], operation: str) -> Command[..., Any]:
    """Return a command that is done once for this operation."""
    return decision.with_options(idempotency_key=operation, attempts=ATTEMPTS)


async def answer_once(request: Request, done: Executed[Any], event: DomainEvent) -> Response:
    """Answer 201, or 200 if the operation was done before. Its id must not stand for anything else."""
    if done.duplicate:
        recorded = await store_of(request).event(done.position)
        if recorded.decode(type(event)) != event:
            raise OtherOperation(recorded.position)
    status = 200 if done.duplicate else 201
    return answer({"position": done.position, "duplicate": done.duplicate}, status)


def store_of(request: Request) -> AsyncEventStore:
    store: AsyncEventStore = request.app.state.store
    return store


def wallet_id(request: Request) -> WalletId:
    return WalletId(request.path_params["wallet_id"])


async def body_of(request: Request, kind: type[T]) -> T:
    """Return the body of a request."""
    return msgspec.json.decode(await request.body(), type=kind)


def answer(fields: dict[str, Any], status: int = 200) -> Response:
    body = msgspec.json.encode(fields, enc_hook=str)  # ids are texts of a class of their own
    return Response(body, status, media_type="application/json")


def problem(status: int, title: str, detail: str) -> Response:
    """Return a refusal (RFC 9457)."""
    fields = {"status": status, "title": title, "detail": detail}
    return Response(msgspec.json.encode(fields), status, media_type="application/problem+json")


async def refused(request: Request, error: Exception) -> Response:
    """Answer what a rule of the wallet says."""
    assert isinstance(error, Refused)
    status, title = REFUSALS[type(error)]
    return problem(status, title, ", ".join(map(str, error.args)))


async def malformed(request: Request, error: Exception) -> Response:
    return problem(400, "The request is not valid", str(error))


async def failed(request: Request, error: Exception) -> Response:
    """Answer what the log says: 409 after too many conflicts, 503 if its database does not answer."""
    assert isinstance(error, StrandlineError)
    if isinstance(error, IdempotencyKeyReused):
        return problem(*REFUSALS[OtherOperation], str(error))
    return problem(400 if error.status == 422 else error.status, error.code, str(error))


ROUTES = [
    Route("/api/wallets/transfers", move, methods=["POST"]),
    Route("/api/wallets/{wallet_id}", open_one, methods=["PUT"]),
    Route("/api/wallets/{wallet_id}", show, methods=["GET"]),
    Route("/api/wallets/{wallet_id}/history", history, methods=["GET"]),
    Route("/api/wallets/{wallet_id}/deposits", pay_in, methods=["POST"]),
    Route("/api/wallets/{wallet_id}/withdrawals", pay_out, methods=["POST"]),
]


def create(url: str | None = None, **options: Any) -> Starlette:
    """Return the application for a log: at `url`, or where $STRANDLINE_URL says."""
    address = url or os.environ.get(VARIABLE, "wallets.db")

    @asynccontextmanager
    async def connected(app: Starlette) -> AsyncGenerator[None, None]:
        async with strandline.connect_async(address, **options) as store:
            app.state.store = store
            yield

    return Starlette(
        routes=ROUTES,
        lifespan=connected,
        exception_handlers={
            Refused: refused,
            StrandlineError: failed,
            msgspec.MsgspecError: malformed,
            UnicodeDecodeError: malformed,
        },
    )
