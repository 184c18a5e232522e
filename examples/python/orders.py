"""Orders: the aggregate, its event, its repository, and the handler whose change and event are one transaction."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from outbox import DomainEvent, Outbox


@dataclass(frozen=True, kw_only=True)
class OrderConfirmed(DomainEvent):
    event_type: ClassVar[str] = "order.confirmed.v1"
    aggregate_type: ClassVar[str] = "Order"

    order_id: UUID
    customer_id: UUID
    total_amount: Decimal
    currency: str
    revision: int


@dataclass
class Order:
    id: UUID
    customer_id: UUID
    total_amount: Decimal
    currency: str
    status: str
    revision: int

    def confirm(self) -> OrderConfirmed:
        """Confirms the order. Confirming again, after a change, makes the next revision."""
        self.status = "confirmed"
        self.revision += 1
        return OrderConfirmed(
            aggregate_id=self.id,
            order_id=self.id,
            customer_id=self.customer_id,
            total_amount=self.total_amount,
            currency=self.currency,
            revision=self.revision,
        )


class OrderRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def get_for_update(self, order_id: UUID) -> Order:
        """The lock serialises the writers of this order, so that its events go out in the order of its revisions."""
        row = (
            await self._session.execute(
                text(
                    """
                    SELECT id, customer_id, total_amount, currency, status, revision
                    FROM example_order WHERE id = :id FOR UPDATE
                    """
                ),
                {"id": order_id},
            )
        ).one()
        return Order(*row)

    async def save(self, order: Order) -> None:
        await self._session.execute(
            text("UPDATE example_order SET status = :status, revision = :revision WHERE id = :id"),
            {"status": order.status, "revision": order.revision, "id": order.id},
        )


class ConfirmOrderHandler:
    """last_step stands for what else a service does inside the transaction. When it raises, neither the change nor the
    event has ever been."""

    def __init__(
        self,
        session: AsyncSession,
        orders: OrderRepository,
        outbox: Outbox,
        service: str,
        last_step: Callable[[OrderConfirmed], Awaitable[None]],
    ) -> None:
        self._session = session
        self._orders = orders
        self._outbox = outbox
        self._topic = f"{service}.order.confirmed"
        self._last_step = last_step

    async def handle(self, order_id: UUID, traceparent: str) -> None:
        async with self._session.begin():
            order = await self._orders.get_for_update(order_id)
            event = order.confirm()
            await self._orders.save(order)
            await self._outbox.add(event, self._topic, {"traceparent": traceparent})
            await self._last_step(event)
