from collections import Counter, defaultdict


def count(text):
    return Counter(text)


def groups(words):
    found = defaultdict(set)
    for word in words:
        found[len(word)].add(word)
    return found
