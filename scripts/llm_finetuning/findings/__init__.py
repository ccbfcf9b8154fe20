"""What the gate can find, one file a question; pure functions of records, as the stages are.

`evidence` holds what all of them look at. Each returns `Finding`s with n and a 95% interval; `stages.gate` puts them
in order and words the verdict.
"""
