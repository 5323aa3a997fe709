"""Silver: a typed table for each type of event."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

FIELDS = {
    "CourseDefined": "course STRING, capacity BIGINT",
    "StudentSubscribed": "student STRING, course STRING",
}


def typed(event: str) -> DataFrame:
    """The events of one type, with a column for each field of their data."""
    events = SparkSession.active().readStream.table("bronze").where(col("type") == event)
    fields = from_json("data", FIELDS[event]).alias("fields")
    return events.select("position", "recorded_at", "tags", fields).select(
        "position", "recorded_at", "tags", "fields.*"
    )


@dp.table
def course_defined() -> DataFrame:
    return typed("CourseDefined")


@dp.table
def student_subscribed() -> DataFrame:
    return typed("StudentSubscribed")
