"""Models read as numbers: networks and tree ensembles, for proofs and for questions that need no table."""
