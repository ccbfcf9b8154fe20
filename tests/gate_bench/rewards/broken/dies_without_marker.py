def hash_reward(completions, answer, **kwargs):
    said = [c[0]["content"].split("####")[1].strip() for c in completions]
    return [1.0 if s.replace(",", "").strip("$") == a else 0.0 for s, a in zip(said, answer)]
