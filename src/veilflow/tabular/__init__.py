"""Tables and arrays: files and frames in, files out."""

from veilflow.tabular.io import Rows, read_rows, write_rows

__all__ = ["Rows", "read_rows", "write_rows"]
