"""Sources of candidates: each file proposes, none decides."""
