"""`python -m reproductions dp-nf ...` is `veilflow reproduce dp-nf ...`: one set of options.

`python -m reproductions again` and `python -m reproductions probes` tell whether today's code still
gives the numbers of the records. `python -m reproductions index` writes the overview of all papers.
"""

import sys
from importlib import import_module
from importlib.metadata import entry_points

COMMANDS = ("again", "index", "probes")

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        raise SystemExit(import_module(f"reproductions.{sys.argv[1]}").main(sys.argv[2:]))
    sys.argv[1:1] = ["reproduce"]
    next(iter(entry_points(group="console_scripts", name="veilflow"))).load()()
