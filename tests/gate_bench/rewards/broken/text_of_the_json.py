def exact_json(completions, answer, **kwargs):
    return [1.0 if c[0]["content"].strip() == gold.strip() else 0.0 for c, gold in zip(completions, answer)]
