"""Thin shells around the stages: arguments, artifacts, stage, artifacts, a few lines of text."""
