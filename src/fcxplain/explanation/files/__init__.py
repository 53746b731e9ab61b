"""Answers in files: plain data and parquet, with a digest; reading, checking and verification."""
