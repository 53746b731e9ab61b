"""The feasible region: what rules, bounds, immutables and overrides leave to a row."""
