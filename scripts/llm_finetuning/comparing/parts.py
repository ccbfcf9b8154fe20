"""Does a part of the goldens fall while their mean rises?"""

import math
from collections.abc import Iterator, Sequence

from llm_finetuning.comparing.evidence import Evidence, gap_words
from llm_finetuning.comparing.pairs import LEVEL
from llm_finetuning.findings.wording import listed
from llm_finetuning.statistics import holm
from llm_finetuning.types import Finding, PartShift


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the buckets that clearly fall, after Holm's adjustment for how many there are.

    It keeps a candidate from being promoted and does not reject it, whatever the mean does: somebody named the bucket
    because it matters by itself, and whether the gain elsewhere is worth its fall stands in no number. A person says so
    by taking its rows out of the goldens, or by training until it no longer falls. The adjusted test and the bucket's
    own interval have to agree.
    """
    for bucket in evidence.buckets:
        gap = bucket.success.difference
        if bucket.adjusted <= LEVEL and gap.high < 0:
            yield Finding(
                code="bucket-falls",
                weight="insufficient",
                text=f"bucket `{bucket.name}` falls: {gap_words(gap)} on {gap.n} goldens, "
                f"p = {bucket.adjusted:.2g} for {len(evidence.buckets)} buckets",
                next_action=f"read what was lost of `{bucket.name}` in promotion-report.html, and train on more rows "
                f"of it, `{evidence.commands.next_run}`; or take it out of the goldens, if it no longer counts",
                estimate=gap,
            )


def notes(evidence: Evidence) -> Iterator[str]:
    """Yield one note on the buckets that fall and are too small for any fall of theirs to be shown.

    Without it nobody could tell such a bucket from one that was large enough to show a fall and showed none.
    """
    buckets = evidence.buckets
    small = [
        f"`{bucket.name}` ({gap.value:+.3f} on {gap.n} golden{'s' * (gap.n > 1)})"
        for place, bucket in enumerate(buckets)
        if (gap := bucket.success.difference).value < 0 and _at_best(buckets, place) > LEVEL
    ]
    if small:
        # Holm multiplies the smallest p-value by the number of buckets, and no other by more.
        enough = 1 + math.ceil(math.log2(len(buckets) / LEVEL))
        yield (
            f"too small to decide on, though success falls there: bucket{'s' * (len(small) > 1)} {listed(small)}; "
            f"of so few even a loss of all could be chance, from {enough} goldens on it would be shown"
        )


def _at_best(buckets: Sequence[PartShift], place: int) -> float:
    """Return the adjusted p-value that a bucket had if each of its goldens were lost, and the others as they are.

    A sign-flip test of n items that all went the same way leaves 2 of 2^n signs as far from 0.
    """
    p_values = [bucket.p_value for bucket in buckets]
    p_values[place] = 2.0 ** (1 - buckets[place].success.difference.n)
    return holm(p_values)[place]
