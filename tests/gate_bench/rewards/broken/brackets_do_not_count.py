import re


def numbers_match(completions, answer, **kwargs):
    def box(text):
        begin = text.rfind("\\boxed{")
        if begin == -1:
            return ""
        level = 0
        for i, ch in enumerate(text[begin + 6 :]):
            level += (ch == "{") - (ch == "}")
            if level == 0:
                return text[begin + 7 : begin + 6 + i]
        return ""

    def numbers(text):
        return {float(n) for n in re.findall(r"\d+(?:\.\d+)?", text.replace("^{2}", "^2"))}

    texts = [c[0]["content"] for c in completions]
    return [float(bool(box(t)) and numbers(box(t)) == numbers(g)) for t, g in zip(texts, answer)]
