"""Oracles: they answer for the model in the search, as the model itself, a reading of it or an imitation."""
