"""Logs that other systems have written: CSV, NDJSON and Parquet of any length."""

from armrace.logs.columns import Columns, make_columns, read_columns
from armrace.logs.log import Batch, Log, open_log
from armrace.logs.row_report import Problem, RowReport
from armrace.logs.samples import SAMPLES

__all__ = [
    "SAMPLES",
    "Batch",
    "Columns",
    "Log",
    "Problem",
    "RowReport",
    "make_columns",
    "open_log",
    "read_columns",
]
