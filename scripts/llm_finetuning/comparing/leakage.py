"""Do goldens stand in the training data, and does the gain rest on them?"""

from collections.abc import Iterator

from llm_finetuning.comparing.evidence import Evidence, gap_words, in_turn
from llm_finetuning.findings.wording import listed
from llm_finetuning.types import Finding


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the leaked goldens do to the answer.

    They are left out, and what is left decides: an item that was trained on says that it was learnt by heart.
    `leaked-gain` rejects: a gain is shown with them and none without them, and they gained more than the others.
    `leaked-power`: none is shown without them either, but they gained no more; what is left is only too little.
    `leaked`: the gain holds without them. `leakage-unread`: nobody looked, so that any gain may be this.
    """
    leaks, again = evidence.leakage, evidence.commands.compare
    if leaks.unread is not None:
        yield Finding(
            code="leakage-unread",
            weight="insufficient",
            text=f"the training data was not searched for the goldens: {leaks.unread}",
            next_action=leaks.mend if "`finetune " in leaks.mend else f"{leaks.mend}, then {in_turn([again])}",
        )
    ids = sorted({leak.prompt_id for leak in leaks.found})
    if not ids:
        if leaks.unread is None:
            yield Finding(
                code="no-leaks", weight="fine", text="no golden stands in the training data", next_action=None
            )
        return
    rows = sorted({leak.row for leak in leaks.found})
    words = f"{len(ids)} goldens stand in the training data ({listed(ids)}) and are left out"
    away = (
        f"take rows {listed(rows)} out of the training data, `{evidence.commands.audit}` until none is left, and train "
        "again; or take other goldens"
    )
    whole, rest, own = evidence.goldens, evidence.fresh, evidence.leaked
    lost = whole.verdict == "improved" and rest is not None and rest.verdict != "improved"
    if lost and rest is not None and own is not None:
        gaps = f"{gap_words(own.success.difference)} on them, {gap_words(rest.success.difference)} on the others"
        carried = own.success.difference.value > rest.success.difference.value
        if carried and rest.success.difference.n:
            yield Finding(
                code="leaked-gain",
                weight="blocks",
                text=f"{words}: they carry the gain, {gaps}",
                next_action=away,
                data_rows=rows,
            )
            return
        yield Finding(
            code="leaked-power",
            weight="insufficient",
            text=f"{words}: without them no gain is shown, {gaps}",
            next_action=away,
            data_rows=rows,
        )
        return
    yield Finding(code="leaked", weight="warns", text=f"{words}: the others decide", next_action=away, data_rows=rows)
