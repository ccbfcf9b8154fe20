"""Runs model-written programs against tests: isolated, unforgeable, and fast enough for a training step."""
