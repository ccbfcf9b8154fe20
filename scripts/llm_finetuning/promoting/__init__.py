"""What `compare` reads for a promotion: both evaluations with their completions, and the goldens that leaked.

The files and the data set are read here; what is decided of them is pure, in `comparing/` and `stages/promote.py`.
"""
