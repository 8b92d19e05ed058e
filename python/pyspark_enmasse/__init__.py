"""Where Spark finds the format `enmasse`: it imports every module named `pyspark_*` on its path."""

from enmasse.pipeline.connector.source import Source as DefaultSource

__all__ = ["DefaultSource"]
