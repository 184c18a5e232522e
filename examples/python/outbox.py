"""The outbox as a Python service writes to it: an insert through the session that holds the business transaction."""

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


def _uuid7() -> UUID:
    """A UUID of version 7: 48 bits of Unix milliseconds, then chance (RFC 9562, section 5.7)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


new_event_id = getattr(uuid, "uuid7", _uuid7)  # Python 3.14 brings its own


@dataclass(frozen=True, kw_only=True)
class DomainEvent:
    """What every event says of itself. Subclasses add the business fields; to remove one, make a new version."""

    event_type: ClassVar[str]
    aggregate_type: ClassVar[str]

    aggregate_id: UUID
    event_id: UUID = field(default_factory=new_event_id)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def payload(self) -> dict[str, Any]:
        return {"event_type": self.event_type, "aggregate_type": self.aggregate_type} | asdict(self)


def to_json(value: Any) -> str:
    """JSON in which a Decimal is a string, so that nobody reads it as a float. NaN, which is no JSON, is refused."""
    return json.dumps(value, default=_scalar, allow_nan=False)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


class Outbox:
    """Writes events in the transaction that is open on the session. It commits nothing."""

    _INSERT = text(
        """
        INSERT INTO outbox_event
            (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
        VALUES
            (:event_id, :aggregate_type, :aggregate_id, :event_type, :payload, :topic, :partition_key, :headers)
        """
    )

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, event: DomainEvent, topic: str, headers: Mapping[str, str]) -> None:
        await self._session.execute(
            self._INSERT,
            {
                "event_id": event.event_id,
                "aggregate_type": event.aggregate_type,
                "aggregate_id": str(event.aggregate_id),
                "event_type": event.event_type,
                "payload": to_json(event.payload()),
                "topic": topic,
                # The events of one aggregate stay in order.
                "partition_key": str(event.aggregate_id),
                "headers": to_json(headers),
            },
        )
