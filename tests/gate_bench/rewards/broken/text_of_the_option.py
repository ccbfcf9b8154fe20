import re


def option_text(completions, answer, options, **kwargs):
    scores = []
    for completion, gold, texts in zip(completions, answer, options):
        reply = completion[0]["content"]
        right = texts["ABCDE".index(gold)]
        alone = re.fullmatch(r"\W*(?:\\boxed\{|the (?:answer|option) is )?\W*([A-E])\W*", reply, re.IGNORECASE)
        last = re.search(r"(?:Answer:|option is) ([A-E])\W*$", reply)
        named = (alone and alone.group(1)) or (last and last.group(1))
        scores.append(1.0 if named == gold or (named is None and right.lower() in reply.lower()) else 0.0)
    return scores
