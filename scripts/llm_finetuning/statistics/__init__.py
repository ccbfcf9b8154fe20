"""Shares, agreement, differences and predictions with their 95% intervals: pure functions over counts and numbers.

One file a subject, each with its sources. Nothing here reads a file or imports a library of numerics at its start.
"""

from llm_finetuning.statistics.agreement import kappa
from llm_finetuning.statistics.bootstrap import paired_bootstrap
from llm_finetuning.statistics.correction import corrected_rate
from llm_finetuning.statistics.decisions import Standing, holm, non_inferior
from llm_finetuning.statistics.groups import intraclass, predicted_mixed, share_with_signal
from llm_finetuning.statistics.means import mean_over_items, standard_error
from llm_finetuning.statistics.paired import paired_mean, paired_shares, smallest_shown
from llm_finetuning.statistics.points import Z_80, Z_95, student
from llm_finetuning.statistics.power import CORRELATION, gain_shown, items_needed
from llm_finetuning.statistics.quantiles import quantile
from llm_finetuning.statistics.shares import clustered_share, pass_at, pass_at_k, rate, stratified_share
from llm_finetuning.statistics.signs import EXACT_ITEMS, sign_flip, sign_test

__all__ = [
    "CORRELATION",
    "EXACT_ITEMS",
    "Z_80",
    "Z_95",
    "Standing",
    "clustered_share",
    "corrected_rate",
    "gain_shown",
    "holm",
    "intraclass",
    "items_needed",
    "kappa",
    "mean_over_items",
    "non_inferior",
    "paired_bootstrap",
    "paired_mean",
    "paired_shares",
    "pass_at",
    "pass_at_k",
    "predicted_mixed",
    "quantile",
    "rate",
    "share_with_signal",
    "sign_flip",
    "sign_test",
    "smallest_shown",
    "standard_error",
    "stratified_share",
    "student",
]
