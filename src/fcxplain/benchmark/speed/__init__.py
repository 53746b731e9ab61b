"""Speed measurements, as ratios from one run."""
