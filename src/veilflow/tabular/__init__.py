"""Tables and arrays: files and frames in, files out."""

from veilflow.tabular.io import Rows, read_rows, write_rows
from veilflow.tabular.stream import write_chunks

__all__ = ["Rows", "read_rows", "write_chunks", "write_rows"]
