"""Is this machine ready for a run: what was read of it, what the run asks of it, and the verdicts.

`checks.CHECKS` is the table of what is looked at; every check is a pure function of `facts.Facts` and `needs.Needs`.
"""
