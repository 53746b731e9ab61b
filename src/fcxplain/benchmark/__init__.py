"""Measurements that the documents quote. They are commands, not tests."""
