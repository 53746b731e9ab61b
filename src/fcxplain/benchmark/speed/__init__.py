"""How fast everything is, as ratios from one run."""
