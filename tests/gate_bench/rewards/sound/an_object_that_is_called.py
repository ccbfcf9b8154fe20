import re


class HashReward:
    __name__ = "hash_reward"

    def __init__(self, right=1.0, wrong=0.0):
        self.right, self.wrong = right, wrong

    def __call__(self, completions, answer, **kwargs):
        return [self.right if self._same(c[-1]["content"], g) else self.wrong for c, g in zip(completions, answer)]

    def _same(self, text, gold):
        _, marker, tail = text.rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        return bool(match) and float(match[1].replace(",", "")) == float(gold)


hash_reward = HashReward()
