"""Completions of a model, drawn by an engine: for `sample` as training draws them, for `evaluate` as it measures."""
