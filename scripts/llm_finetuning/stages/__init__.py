"""The stages: pure functions, records in and records out. They import `types` and nothing else of ours."""
