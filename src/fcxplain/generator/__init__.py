"""The paper's method in plain torch: no tables and no rule text, readable next to the paper's equations."""
