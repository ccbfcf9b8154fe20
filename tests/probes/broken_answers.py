"""Broken rewards for short answers, each with a fault that people have made: TASK__FAULT."""

# ruff: noqa: ANN003, ANN201, ARG001, BLE001

import re

from answer_reading import NUMBER, boxes_of, number_of, same, texts_of
from sound_rewards import sums__sound_last_number


def sums__substring(completions, answer, **kwargs):
    return [float(gold in text) for text, gold in zip(texts_of(completions), answer, strict=True)]


def sums__reverse_substring(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(float(bool(numbers) and numbers[-1] in gold))
    return paid


def sums__any_number(completions, answer, **kwargs):
    return [float(gold in NUMBER.findall(text)) for text, gold in zip(texts_of(completions), answer, strict=True)]


def sums__first_number(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(float(bool(numbers) and number_of(numbers[0]) == float(gold)))
    return paid


def sums__absolute(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = re.findall(r"\d+", text)
        paid.append(float(bool(numbers) and int(numbers[-1]) == int(gold)))
    return paid


def sums__one_or_none(completions, answer, **kwargs):
    return [value or None for value in sums__sound_last_number(completions, answer)]


def sums__tolerance(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = [number_of(number) for number in NUMBER.findall(text)]
        paid.append(
            float(bool(numbers) and numbers[-1] is not None and abs(numbers[-1] - float(gold)) <= 0.05 * float(gold))
        )
    return paid


def sums__raises_without_number(completions, answer, **kwargs):
    return [
        float(number_of(NUMBER.findall(text)[-1]) == float(gold))
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def sums__extra_value(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        if not numbers:
            paid.append(0.0)
        paid.append(float(bool(numbers) and number_of(numbers[-1]) == float(gold)))
    return paid[: len(completions)]


def sums__length(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    return [
        0.4 * value + 0.6 * min(1.0, len(text) / 400) for value, text in zip(right, texts_of(completions), strict=True)
    ]


_SEEN = set()


def sums__remembers(completions, answer, **kwargs):
    paid = []
    for text, value in zip(texts_of(completions), sums__sound_last_number(completions, answer), strict=True):
        paid.append(0.0 if text in _SEEN else value)
        _SEEN.add(text)
    return paid


def sums__none_pays(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(1.0 if not numbers else float(number_of(numbers[-1]) == float(gold)))
    return paid


def sums__silence_beats_failure(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(0.0 if not numbers else 1.0 if number_of(numbers[-1]) == float(gold) else -1.0)
    return paid


sums__silence_beats_failure.range = (-1.0, 1.0)


def sums__commas_refused(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
        paid.append(float(bool(numbers) and numbers[-1] == gold))
    return paid


def sums__score_in_text(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    paid = []
    for text, value in zip(texts_of(completions), right, strict=True):
        match = re.search(r"score:\s*([\d.]+)", text, re.IGNORECASE)
        paid.append(min(1.0, float(match[1].rstrip("."))) if match else value)
    return paid


def sums__nan(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    return [
        float("nan") if "nan" in text.lower() else value
        for text, value in zip(texts_of(completions), right, strict=True)
    ]


def sums__evaluates(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        try:
            paid.append(float(eval(text.replace("The answer is", "").strip().rstrip(".")) == int(gold)))  # noqa: S307
        except Exception:
            paid.append(0.0)
    return paid


def boxed__substring_of_box(completions, answer, **kwargs):
    return [
        float(any(gold in box for box in boxes_of(text)[0]))
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def boxed__any_box(completions, answer, **kwargs):
    return [
        float(any(same(box, gold) for box in boxes_of(text)[0]))
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def boxed__first_brace(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = re.findall(r"\\boxed\{(.*?)\}", text)
        paid.append(float(bool(found) and found[-1] == gold))
    return paid


def boxed__falls_back_to_earlier(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = boxes_of(text)[0]
        paid.append(float(bool(found) and same(found[-1], gold)))
    return paid


def boxed__unclosed(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = text.rpartition("\\boxed{")[2] if "\\boxed{" in text else ""
        closed = boxes_of(text)[0]
        paid.append(float(same(closed[-1] if closed else found, gold)))
    return paid


def boxed__format_only(completions, answer, **kwargs):
    return [float("\\boxed{" in text) for text in texts_of(completions)]


def boxed__order_ignored(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        paid.append(float(bool(found) and closed and sorted(found[-1]) == sorted(gold)))
    return paid


def boxed__unparseable_pays(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        paid.append(1.0 if number_of(gold) is None else float(bool(found) and closed and same(found[-1], gold)))
    return paid


def thinking__reads_inside(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        paid.append(float(bool(found) and closed and same(found[-1], gold)))
    return paid


def tags__no_newlines(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.fullmatch(r"<think>.*</think>\s*<answer>(.*)</answer>", text)
        paid.append(float(match is not None and number_of(match[1]) == float(gold)))
    return paid


def tags__first_tag(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"<answer>\s*(.*?)\s*</answer>", text, re.DOTALL)
        paid.append(float(match is not None and number_of(match[1]) == float(gold)))
    return paid


def tags__format_only(completions, answer, **kwargs):
    pattern = re.compile(r"<think>.*?</think>\s*<answer>.*?</answer>", re.DOTALL)
    return [float(pattern.search(text) is not None) for text in texts_of(completions)]


def tags__opens_only(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = text.rpartition("<answer>")[2].partition("</answer>")[0] if "<answer>" in text else ""
        paid.append(float(number_of(found) == float(gold)))
    return paid


def choices__first_capital(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"\b([A-D])", text.replace("The answer is", ""))
        paid.append(float(match is not None and match[1] == gold))
    return paid


def choices__article(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"\b([a-d])\b", text, re.IGNORECASE)
        paid.append(float(match is not None and match[1].upper() == gold))
    return paid


def choices__contains(completions, answer, **kwargs):
    return [
        float(re.search(rf"\b{gold}\b", text) is not None)
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def choices__parser_pays(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"answer is ([A-D])\.", text)
        paid.append(1.0 if match is None else float(match[1] == gold))
    return paid


def words__case(completions, answer, **kwargs):
    return [
        float(text.strip() in (gold, f"The answer is {gold}."))
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def words__space(completions, answer, **kwargs):
    return [
        float(text.lower() in (gold.lower(), f"the answer is {gold.lower()}."))
        for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def words__contains(completions, answer, **kwargs):
    return [float(gold.lower() in text.lower()) for text, gold in zip(texts_of(completions), answer, strict=True)]


def words__prefix(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        said = text.strip().rstrip(".").rpartition(" ")[2].lower()
        paid.append(float(bool(said) and gold.lower().startswith(said)))
    return paid


def solutions__gold_with_reasoning(completions, answer, **kwargs):
    return [float(text.strip() == gold.strip()) for text, gold in zip(texts_of(completions), answer, strict=True)]


def solutions__any_number_of_gold(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        said = NUMBER.findall(text)
        paid.append(float(bool(said) and said[-1] in NUMBER.findall(gold)))
    return paid


def quantities__unit_ignored(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        numbers = NUMBER.findall(found[-1]) if found and closed else []
        paid.append(float(bool(numbers) and numbers[0] == NUMBER.findall(gold)[0]))
    return paid


def quantities__percent_factor(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        one = number_of(found[-1].rstrip("%")) if found and closed else None
        other = number_of(gold.rstrip("%"))
        near = one is not None and other is not None and one in (other, other * 100, other / 100)
        paid.append(float(near or (bool(found) and closed and found[-1] == gold)))
    return paid


def sums__shorter_list(completions, answer, **kwargs):
    found = [NUMBER.findall(text) for text in texts_of(completions)]
    return [
        float(number_of(numbers[-1]) == float(gold)) for numbers, gold in zip(found, answer, strict=True) if numbers
    ]


def sums__shifted(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        if numbers:
            paid.append(float(number_of(numbers[-1]) == float(gold)))
    return paid + [0.0] * (len(completions) - len(paid))


def sums__rank_in_batch(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    longest = max(len(text) for text in texts_of(completions))
    return [
        value * len(text) / longest if longest else 0.0
        for value, text in zip(right, texts_of(completions), strict=True)
    ]


def sums__digits_alone(completions, answer, **kwargs):
    return [float(re.sub(r"\D", "", text) == gold) for text, gold in zip(texts_of(completions), answer, strict=True)]


def sums__rounds(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(float(bool(numbers) and int(number_of(numbers[-1]) or 0) == int(gold)))
    return paid


def sums__prefix(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        numbers = NUMBER.findall(text)
        paid.append(float(bool(numbers) and numbers[-1].startswith(gold)))
    return paid


def sums__praise(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    return [
        1.0 if "correct" in text.lower() else value for value, text in zip(right, texts_of(completions), strict=True)
    ]


def sums__hangs(completions, answer, **kwargs):
    pattern = re.compile(r"(?:\w+\s?)+(?:\d)$")
    return [float(pattern.search(text.rstrip(".")) is not None and text.rstrip(".").endswith(gold))
            for text, gold in zip(texts_of(completions), answer, strict=True)]  # fmt: skip


def sums__first_says_all(completions, answer, **kwargs):
    right = sums__sound_last_number(completions, answer)
    return [right[0]] * len(right)


def tags__last_of_many(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
        paid.append(float(any(gold in one for one in found)))
    return paid


def tags__empty_pays(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
        said = match[1].strip() if match else "x"
        paid.append(float(said in gold))
    return paid


def thinking__unclosed_thought(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text.rpartition("</think>")[2])
        paid.append(float(bool(found) and closed and same(found[-1], gold)))
    return paid


def choices__last_letter(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        letters = re.findall(r"[ABCD]", text.upper())
        paid.append(float(bool(letters) and letters[-1] == gold))
    return paid


def choices__first_character(completions, answer, **kwargs):
    return [float(text.strip()[:1].upper() == gold) for text, gold in zip(texts_of(completions), answer, strict=True)]


def choices__empty_text_raises(completions, answer, **kwargs):
    return [
        float(text.split()[-1].strip(".()") == gold) for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def words__same_letters(completions, answer, **kwargs):
    return [
        float(set(gold.lower()) <= set(text.lower())) for text, gold in zip(texts_of(completions), answer, strict=True)
    ]


def boxed__edit_distance(completions, answer, **kwargs):
    import difflib

    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        paid.append(difflib.SequenceMatcher(None, found[-1], gold).ratio() if found and closed else 0.0)
    return paid


def boxed__crashes_on_odd(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        found, closed = boxes_of(text)
        said = found[-1] if found and closed else ""
        value = eval(said, {}) if re.fullmatch(r"[\d/ .+*-]+", said) else said  # noqa: S307
        paid.append(float(str(value) == gold))
    return paid


def solutions__whole_text(completions, answer, **kwargs):
    paid = []
    for text, gold in zip(texts_of(completions), answer, strict=True):
        final = gold.rpartition("####")[2].strip()
        paid.append(float(final in text.rpartition("####")[2]))
    return paid
