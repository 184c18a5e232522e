"""The handler of the outbox chapter that Posthaste starts from, run as it stands.

Added are only what the chapter leaves out: text() around its SQL, a uuid7 function for Pythons before 3.14, the domain
classes, and a main function that confirms orders. It takes the database's URL and the number of orders and prints a
line for each event: event id and aggregate id.
"""

import asyncio
import json
import os
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine


def uuid7() -> UUID:
    """A UUID of version 7: 48 bits of Unix milliseconds, then random (RFC 9562, section 5.7)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


@dataclass(frozen=True)
class OrderConfirmedEvent:
    event_id: UUID
    occurred_at: str
    aggregate_id: UUID
    order_id: UUID
    customer_id: UUID
    total_amount: Decimal
    currency: str
    event_type: str = "order.confirmed.v1"


@dataclass
class Order:
    id: UUID
    customer_id: UUID
    total_amount: Decimal
    currency: str
    status: str

    def confirm(self) -> None:
        self.status = "confirmed"


class OrderRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def get_for_update(self, order_id: UUID) -> Order:
        row = (
            await self._session.execute(
                text("SELECT id, customer_id, total_amount, currency, status FROM orders WHERE id = :id FOR UPDATE"),
                {"id": order_id},
            )
        ).one()
        return Order(*row)

    async def save(self, order: Order) -> None:
        await self._session.execute(
            text("UPDATE orders SET status = :status WHERE id = :id"),
            {"status": order.status, "id": order.id},
        )


class ConfirmOrderHandler:
    def __init__(self, session: AsyncSession, order_repo: OrderRepository, topic: str) -> None:
        self._session = session
        self._order_repo = order_repo
        self._topic = topic

    async def handle(self, order_id: uuid.UUID) -> OrderConfirmedEvent:
        async with self._session.begin():
            order = await self._order_repo.get_for_update(order_id)
            order.confirm()
            await self._order_repo.save(order)

            event = OrderConfirmedEvent(
                event_id=uuid7(),
                occurred_at=datetime.now(timezone.utc).isoformat(),
                aggregate_id=order.id,
                order_id=order.id,
                customer_id=order.customer_id,
                total_amount=order.total_amount,
                currency=order.currency,
            )

            await self._session.execute(
                text(
                    """
                    INSERT INTO outbox_event
                        (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
                    VALUES
                        (:event_id, :aggregate_type, :aggregate_id, :event_type, :payload, :topic, :partition_key)
                    """
                ),
                {
                    "event_id": str(event.event_id),
                    "aggregate_type": "Order",
                    "aggregate_id": str(order.id),
                    "event_type": event.event_type,
                    "payload": json.dumps(asdict(event), default=str),
                    "topic": self._topic,
                    "partition_key": str(order.id),
                },
            )
        return event


async def main(url: str, topic: str, orders: int) -> None:
    engine = create_async_engine(url)
    sessions = async_sessionmaker(engine)
    for n in range(orders):
        async with sessions() as session:
            async with session.begin():
                order_id = (
                    await session.execute(
                        text(
                            "INSERT INTO orders (id, customer_id, total_amount, currency, status)"
                            " VALUES (gen_random_uuid(), gen_random_uuid(), :amount, 'EUR', 'new') RETURNING id"
                        ),
                        {"amount": Decimal(n) + Decimal("0.10")},
                    )
                ).scalar_one()
            event = await ConfirmOrderHandler(session, OrderRepository(session), topic).handle(order_id)
            print(event.event_id, event.aggregate_id)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
