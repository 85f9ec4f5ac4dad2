"""Answers, reports and tallies on a Spark cluster: data frames, files that Spark reads, and a session to do it on."""

from tacit.files.spark._session import SparkFiles, connected, read

__all__ = ["SparkFiles", "connected", "read"]
