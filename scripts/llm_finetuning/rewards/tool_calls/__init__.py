"""Tool calls: one file a family of wire formats, what tools and golds are, and when two calls are the same."""
