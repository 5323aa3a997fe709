"""Bronze: every event of the log as it is, by day. Each run adds what is new."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import to_date


@dp.table
def bronze() -> DataFrame:
    spark = SparkSession.active()
    events = spark.readStream.format("strandline").option("urlEnv", "SCHOOL_URL").load()
    return events.withColumn("date", to_date("recorded_at"))
