"""Confirms four orders again and again, several at a time, and lets every fifth transaction fail at its last step.

Prints a line of JSON for each event, also for those that were rolled back.
"""

import asyncio
import os
import secrets
import uuid
from decimal import Decimal
from uuid import UUID

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from orders import ConfirmOrderHandler, OrderConfirmed, OrderRepository
from outbox import Outbox, to_json

ORDERS = 4
TRANSACTIONS = 20


class OutOfStock(Exception):
    pass


async def main() -> None:
    # The driver reads the URL itself: SQLAlchemy would refuse libpq's parameters in it, such as sslmode.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(os.environ["DATABASE_URL"])
    )
    sessions = async_sessionmaker(engine)
    try:
        orders = await place_orders(sessions)
        await asyncio.gather(*(confirm(sessions, orders[n % ORDERS], n % 5 == 4) for n in range(TRANSACTIONS)))
    finally:
        await engine.dispose()


async def confirm(sessions: async_sessionmaker[AsyncSession], order_id: UUID, out_of_stock: bool) -> None:
    written: list[OrderConfirmed] = []

    async def last_step(event: OrderConfirmed) -> None:
        written.append(event)
        if out_of_stock:
            raise OutOfStock

    service = os.environ.get("SERVICE", "order-service")
    traceparent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"  # stands for the header of a request
    committed = True
    async with sessions() as session:
        handler = ConfirmOrderHandler(session, OrderRepository(session), Outbox(session), service, last_step)
        try:
            await handler.handle(order_id, traceparent)
        except OutOfStock:
            committed = False
    for event in written:
        line = {
            "committed": committed,
            "event_id": event.event_id,
            "event_type": event.event_type,
            "topic": f"{service}.order.confirmed",
            "key": event.aggregate_id,
            "headers": {"traceparent": traceparent},
            "payload": event.payload(),
        }
        print(to_json(line))


async def place_orders(sessions: async_sessionmaker[AsyncSession]) -> list[UUID]:
    orders = [uuid.uuid4() for _ in range(ORDERS)]
    async with sessions.begin() as session:
        await session.execute(
            text(
                """
                CREATE TABLE IF NOT EXISTS example_order (
                    id           uuid    PRIMARY KEY,
                    customer_id  uuid    NOT NULL,
                    total_amount numeric NOT NULL,
                    currency     text    NOT NULL,
                    status       text    NOT NULL,
                    revision     integer NOT NULL
                )
                """
            )
        )
        await session.execute(
            text("INSERT INTO example_order VALUES (:id, :customer, :amount, 'EUR', 'new', 0)"),
            [{"id": id, "customer": uuid.uuid4(), "amount": Decimal(f"{n}.10")} for n, id in enumerate(orders)],
        )
    return orders


if __name__ == "__main__":
    asyncio.run(main())
