"""Proofs that a row has no counterfactual: by its rules, by trying every legal row, by bounds, by cells of trees."""

from .proof import Proof, prove

__all__ = ["Proof", "prove"]
