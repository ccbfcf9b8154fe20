def extract_hash_answer(text):
    if "####" not in text:
        return None
    return text.split("####")[1].strip().split("\n")[0].replace(",", "").replace("$", "")


def correctness_reward(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        said = extract_hash_answer(completion[0]["content"])
        try:
            rewards.append(1.0 if said is not None and float(said) == float(gold) else 0.0)
        except ValueError:
            rewards.append(0.0)
    return rewards
