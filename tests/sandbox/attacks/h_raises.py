def parse(text):
    if not text.isdigit():
        raise ValueError(f"no number: {text}")
    return int(text)
