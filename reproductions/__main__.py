"""`python -m reproductions dp-nf ...` is `veilflow reproduce dp-nf ...`: one set of options."""

import sys
from importlib.metadata import entry_points

if __name__ == "__main__":
    sys.argv[1:1] = ["reproduce"]
    next(iter(entry_points(group="console_scripts", name="veilflow"))).load()()
