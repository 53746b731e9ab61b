"""Measurements that documents quote: commands, never tests."""
