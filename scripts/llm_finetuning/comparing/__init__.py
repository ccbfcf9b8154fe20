"""What two evaluations say of each other item by item, and what of it speaks for or against a promotion.

As pure as a stage: records in, records out. `comparison` is the paired part; the other files look at one question each
and give findings, which `stages/promote.py` puts in order.
"""
