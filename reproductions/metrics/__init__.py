"""What only reproductions measure and draw; `veilflow.evaluation` has what reports measure.

Nothing here is paid for: results are as private as the rows they come from, and reproductions are of
public benchmarks and generated rows.
"""
