"""Answers in files: plain data and parquet, with a digest; read again, checked again, verified."""
