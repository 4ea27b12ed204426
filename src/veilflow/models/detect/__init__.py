"""Anomaly detection: thresholds on a released density, and ensembles that answer queries."""
