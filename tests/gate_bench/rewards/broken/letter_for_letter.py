def last_boxed_only_string(string):
    idx = string.rfind("\\boxed{")
    if idx < 0:
        return None
    depth = 0
    for i in range(idx + 6, len(string)):
        if string[i] == "{":
            depth += 1
        elif string[i] == "}":
            depth -= 1
            if depth == 0:
                return string[idx + 7 : i]
    return None


def exact_box(completions, answer, **kwargs):
    texts = [c[0]["content"] for c in completions]
    return [1.0 if last_boxed_only_string(t) == g else 0.0 for t, g in zip(texts, answer)]
