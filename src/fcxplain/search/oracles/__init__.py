"""Oracles: what answers for the model in the search, from its own tables to what was read or learnt of it."""
