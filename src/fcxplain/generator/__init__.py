"""The paper's method in torch alone: no tables, no rule text, readable beside its equations."""
