"""Results of other evaluation programs in, ours out: lm-evaluation-harness, inspect-ai, Parquet."""
