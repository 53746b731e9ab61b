"""Result lines as documents, tables and pictures."""
