"""Proofs that a row has no counterfactual: by its rules, by trying every legal row, by bounds, by cells of trees."""
