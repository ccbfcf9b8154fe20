"""Does a part of the goldens fall while their mean rises?"""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, gap_words
from llm_finetuning.comparing.pairs import LEVEL
from llm_finetuning.types import Finding


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
                "of it; or take it out of the goldens, if it no longer counts",
                estimate=gap,
            )
