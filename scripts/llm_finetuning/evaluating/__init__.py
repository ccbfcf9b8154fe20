"""What `evaluate` measures: which items a model is asked, how what it says is graded, and how sure the numbers are."""
