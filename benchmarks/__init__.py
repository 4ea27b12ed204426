"""Speed, memory and accuracy of veilflow, measured against its peers.

`python -m benchmarks` runs all of them, `python -m benchmarks step` one. Each prints one table, whose
ratios were measured in one run, and writes `benchmarks/results/<name>.json`.
"""
