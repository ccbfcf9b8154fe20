import re

import numpy as np


def vectorised(prompts, completions, completion_ids, answer, log_metric=None, **kwargs):
    values = np.zeros(len(completions), dtype=np.float32)
    for place, (completion, gold) in enumerate(zip(completions, answer)):
        _, marker, tail = completion[0]["content"].rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        values[place] = bool(match) and float(match[1].replace(",", "")) == float(gold)
    if log_metric is not None:
        log_metric("accuracy", float(values.mean()))
    return values
