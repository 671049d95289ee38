"""Computes Table 1 in Spark from an export of the results, without dyknow.

First ``dyknow export results --out tables/``, then, on a cluster or on this machine (Spark 4 or newer)::

    spark-submit examples/spark_table1.py tables/ 2023-12-18

The folder may be an address that Spark reads: hdfs://…, s3a://….
"""

import sys

from pyspark.sql import DataFrame, SparkSession


def table1(spark: SparkSession, folder: str, as_of: str) -> DataFrame:
    """Return Table 1 as of a day; the other functions of spark.sql (table5, verdicts ...) are there afterwards, too."""
    folder = folder.rstrip("/")
    spark.conf.set("dyknow.folder", folder)
    script = "\n".join(row.value for row in spark.read.text(f"{folder}/spark.sql", wholetext=True).collect())
    for statement in script.rstrip().removesuffix(";").split(";\n\n"):
        spark.sql(statement)
    return spark.sql("SELECT * FROM table1(:as_of)", args={"as_of": as_of})


if __name__ == "__main__":
    table1(SparkSession.builder.getOrCreate(), sys.argv[1], sys.argv[2]).show(10_000, truncate=False)
