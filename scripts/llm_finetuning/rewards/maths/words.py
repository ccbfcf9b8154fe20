"""Answers that are words: folded text, dates, times of day, numbers written out, yes and no."""

import re
from fractions import Fraction

_TEXT_GROUP = re.compile(
    r"\\(?:text|mbox|mathrm|textrm|textbf|textit|mathbf|mathit|hbox|operatorname|texttt|textsf|emph|underline|boldsymbol|bm|bf|rm)\s*\{([^{}]*)\}"
)
_ARTICLES = re.compile(r"^(?:the|an?)\s+(?=\w{2})")
_QUOTES = re.compile(r"^[\"'`]+|[\"'`]+$")
_SENTENCE = re.compile(
    r"^(?:so|thus|hence|therefore|then|finally)?,?\s*(?:the|it|its|this|that|our|my)\b[\w\s]{0,40}?\b(?:is|are|was|were|equals|equal to|would be|will be|must be)\s+(?:indeed\s+|simply\s+|just\s+|a\s+|an\s+|the\s+)?(?P<rest>.+)$"  # noqa: E501  a pattern, whole on a line
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|isn't|aren't|wasn't|cannot|can't|or|either|maybe|perhaps|possibly|except|but)\b"
)
_MAX_WORDS_LENGTH = 400

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = {word: value for value, word in enumerate(_UNITS)} | {
    word: 10 * (place + 2) for place, word in enumerate(_TENS)
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SCALED = re.compile(
    r"^(?P<value>.*[\d)}])\s*(?P<scale>hundred|thousand|million|billion|trillion)\b\s*(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_ORDINALS = dict(
    zip(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
        ],
        range(1, 13),
        strict=True,
    )
)

_PARTS = {"half": 2, "halve": 2, "quarter": 4} | {word: value for word, value in _ORDINALS.items() if value > 2}  # noqa: PLR2004  first and second are no parts

_MONTHS = {
    name[:3]: place + 1
    for place, name in enumerate(
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ]
    )
}
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"  # noqa: E501  a pattern, whole on a line
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    re.compile(rf"^{_MONTH}\s+{_DAY}(?:,?\s+(?P<year>\d{{4}}))?$"),
    re.compile(rf"^{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<year>\d{{4}}))?$"),
    re.compile(r"^(?P<year>\d{4})[-/](?P<number>\d{1,2})[-/](?P<day>\d{1,2})$"),
)
_SLASHED = re.compile(r"^\d{1,2}/\d{1,2}/\d{2,4}$")
_TIME = re.compile(r"^(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::(?P<second>\d{2}))?\s*(?P<half>[ap])\.?\s*m\.?$")
_CLOCK = re.compile(r"^(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?$")


def plain_text(text: str) -> str:
    """Return text without the groups that only style it."""
    before = ""
    for _ in range(3):
        if before == text or "\\" not in text:
            break
        before, text = text, _TEXT_GROUP.sub(r" \1 ", text)
    return " ".join(text.replace("{", "").replace("}", "").split())


def folded(text: str) -> str:
    """Return text for comparison: one case, one space, no quotes, article or closing punctuation."""
    text = plain_text(text).casefold().replace("-", " ").replace("_", " ")
    text = _QUOTES.sub("", text).strip(" .,;:!?*\"'")
    return " ".join(_ARTICLES.sub("", text).split())


def same_words(gold: str, answer: str) -> bool:
    """Tell whether two texts say the same: equal when folded, one date, one time, or `the colour is GOLD`."""
    one, other = folded(gold), folded(answer)
    if one == other or one.replace(" ", "") == other.replace(" ", ""):
        return bool(one)
    calendar = moment(gold)
    if calendar is not None:
        return calendar == moment(answer)
    sentence = _SENTENCE.match(" ".join(plain_text(answer).casefold().split()))
    if sentence and not _NEGATION.search(other.removesuffix(one)):
        return folded(sentence["rest"]) == one
    if one in _VERDICTS:
        return _says_at_once(one, plain_text(answer).casefold())
    if (" and " in one or ", " in one) and _NAMES.split(one) != [one] and not _NEGATION.search(other):
        return sorted(_NAMES.split(one)) == sorted(_NAMES.split(other))
    return _SYNONYMS.get(one, one) == _SYNONYMS.get(other, other)


_NAMES = re.compile(r",\s*and\s+|,\s*|\s+and\s+")
_VERDICTS = frozenset(["yes", "no", "true", "false"])
_WORD = re.compile(r"[a-z']+")


def _says_at_once(verdict: str, answer: str) -> bool:
    """Tell whether an answer is the verdict and, after a comma or full stop, a clause that does not take it back."""
    head = _CLAUSE.fullmatch(answer)
    if head is None or head["verdict"] != verdict:
        return False
    said = set(_WORD.findall(head["rest"]))
    return not said & (_DENYING if verdict in {"no", "false"} else _DENYING | {"not", "never"})


_CLAUSE = re.compile(r"(?P<verdict>[a-z]+)\s*[,.;:!](?P<rest>.*)", re.DOTALL)
_DENYING = _VERDICTS | frozenset(
    ["or", "but", "maybe", "perhaps", "possibly", "wait", "unless", "if", "except", "unclear", "unsure"]
)


_SYNONYMS = dict.fromkeys(
    ["no solution", "no solutions", "no real solution", "no real solutions", "empty set", "\\emptyset", "none exist"],
    "no solution",
) | dict.fromkeys(["does not exist", "dne", "undefined", "not defined"], "does not exist")


def moment(text: str) -> tuple[str, ...] | None:
    """Return a date or a time of day in one form, None if the text is neither."""
    text = " ".join(plain_text(text).casefold().split()).strip(" .,")
    for form in _DATES:
        match = form.match(text)
        if match:
            parts = match.groupdict()
            month = int(parts["number"]) if parts.get("number") else _MONTHS[parts["month"][:3]]
            return ("date", parts.get("year") or "", str(month), str(int(parts["day"])))
    if _SLASHED.match(text):
        return ("slashed", text)
    match = _TIME.match(text)
    if match:
        hour = int(match["hour"]) % 12 + (12 if match["half"] == "p" else 0)
        return ("time", str(hour), match["minute"] or "00", match["second"] or "00")
    return None


def clock(text: str) -> str:
    """Return a time of day without its half of the day (`3:30`), '' if the text is no time."""
    text = " ".join(plain_text(text).casefold().split()).strip(" .,")
    match = _CLOCK.match(text) or _TIME.match(text)
    return f"{int(match['hour'])}:{match['minute'] or '00'}:{match['second'] or '00'}" if match else ""


def is_calendar(text: str) -> bool:
    """Tell whether the text is a date or time, which must not be read as arithmetic."""
    return moment(text) is not None


def written_number(text: str) -> Fraction | None:
    """Return the value of a number written out in English, None if it is none."""
    words = plain_text(text).casefold().replace("-", " ").replace(",", " ").split()
    if not words or len(words) > 12:  # noqa: PLR2004  longer than any number that is written out
        return None
    if len(words) == 2 and words[0] in _SMALL and words[1].rstrip("s") in _PARTS:  # noqa: PLR2004  `two thirds`
        return Fraction(_SMALL[words[0]], _PARTS[words[1].rstrip("s")])
    if len(words) == 1 and words[0] in _ORDINALS:
        return Fraction(_ORDINALS[words[0]])
    sign = 1
    if words[0] in {"minus", "negative"} and len(words) > 1:
        sign, words = -1, words[1:]
    total, current = 0, 0
    for word in words:
        if word == "and" and (total or current):
            continue
        if word in _SMALL:
            current += _SMALL[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _SCALES:
            total, current = total + (current or 1) * _SCALES[word], 0
        else:
            return None
    return Fraction(sign * (total + current))


def scale_of(word: str) -> int:
    """Return what `million` and its like multiply by."""
    return 100 if word.lower() == "hundred" else _SCALES[word.lower()]


def is_text(text: str) -> bool:
    """Tell whether folded text is worth comparing as words."""
    return 0 < len(text) <= _MAX_WORDS_LENGTH and any(sign.isalnum() for sign in text)
