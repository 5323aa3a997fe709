"""The school after a while: its classes have changed, its events have not."""

from __future__ import annotations

from typing import Any

from academy import CourseId

from strandline import DomainEvent, upcast


class CourseDefined(DomainEvent, version=2):
    course: CourseId
    capacity: int
    room: str | None = None

    @staticmethod
    @upcast(1)
    def with_room(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "room": "hall"}
