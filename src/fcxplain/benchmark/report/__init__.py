"""Results as documents, tables and pictures."""
