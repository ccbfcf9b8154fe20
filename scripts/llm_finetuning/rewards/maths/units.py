"""Units, percent signs and currencies at the end or the start of an answer, in one spelling."""

import re

_SPELLINGS = {
    "mm": "millimeter millimeters millimetre millimetres",
    "cm": "centimeter centimeters centimetre centimetres",
    "m": "meter meters metre metres",
    "km": "kilometer kilometers kilometre kilometres kms",
    "inch": "in inches",
    "ft": "foot feet",
    "yd": "yard yards yds",
    "mile": "miles mi",
    "mg": "milligram milligrams",
    "g": "gram grams gm",
    "kg": "kilogram kilograms kgs kilo kilos",
    "lb": "pound pounds lbs",
    "oz": "ounce ounces",
    "ton": "tons tonne tonnes",
    "ms": "millisecond milliseconds",
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "l": "L liter liters litre litres",
    "ml": "mL milliliter milliliters millilitre millilitres",
    "degree": "degrees deg",
    "radian": "radians rad rads",
    "mph": "",
    "km/h": "kph kmh kmph",
    "dollar": "dollars USD usd",
    "cent": "cents",
    "euro": "euros EUR",
    "pound sterling": "GBP",
    "unit": "units",
    "N": "newton newtons",
    "J": "joule joules",
    "kJ": "kilojoule kilojoules",
    "W": "watt watts",
    "kW": "kilowatt kilowatts",
    "V": "volt volts",
    "A": "ampere amperes amp amps",
    "K": "kelvin kelvins",
    "Hz": "hertz",
    "Pa": "pascal pascals",
    "kPa": "kilopascal kilopascals",
    "mol": "mole moles",
    "person": "people persons",
    "man": "men",
    "woman": "women",
    "child": "children",
}
CANONICAL = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others.split())}
SINGLE_LETTERS = frozenset("mgshl") | {"L"}  # after a digit without a space; other letters are variables there

# Words that make what follows a number a statement, not a unit.
NOT_UNITS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "not",
        "no",
        "nor",
        "isn't",
        "aren't",
        "wasn't",
        "wrong",
        "incorrect",
        "false",
        "right",
        "correct",
        "true",
        "or",
        "and",
        "but",
        "if",
        "then",
        "else",
        "maybe",
        "perhaps",
        "possibly",
        "probably",
        "approximately",
        "about",
        "around",
        "than",
        "more",
        "less",
        "least",
        "most",
        "between",
        "to",
        "at",
        "both",
        "either",
        "neither",
        "any",
        "all",
        "some",
        "none",
        "other",
        "others",
        "mod",
        "modulo",
        "where",
        "when",
        "for",
        "because",
        "since",
        "so",
        "thus",
        "hence",
        "therefore",
        "which",
        "that",
        "it",
        "this",
        "i",
        "we",
        "you",
        "he",
        "she",
        "they",
        "answer",
        "unless",
        "only",
        "think",
        "guess",
        "sure",
        "likely",
        "plus",
        "minus",
        "times",
        "divided",
        "over",
        "under",
        "million",
        "billion",
        "trillion",
        "thousand",
        "hundred",
        "dozen",
    ]
)

_PERCENT = re.compile(
    r"\s*(?:\\?%|(?:\\(?:text|mbox|mathrm|textrm)\s*\{)?\s*(?:percent|per cent|pct)\s*\}?)\s*$", re.IGNORECASE
)
_DEGREE = re.compile(
    r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\circ)\s*(?:\\(?:text|mathrm|textrm|mbox)\s*\{\s*([CFK])\s*\}|([CFK]))?\s*$"
)
_TRIGONOMETRIC = re.compile(r"(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_POWER = r"(?:\s*\^\s*(?:\{\s*-?\d\s*\}|-?\d))?"
_GROUP = r"\\(?:text|mbox|mathrm|textrm|rm|hbox|operatorname|textit|textbf|mathit|textsf|unit)\s*\{[^{}\\]*\}"
_GROUPS = re.compile(
    rf"(?:{_GROUP}{_POWER}(?:\s*(?:/|\\cdot|\*|\\times)?\s*(?={_GROUP}))?)+\s*$"
    rf"|\\frac\s*\{{\s*{_GROUP}{_POWER}\s*\}}\s*\{{\s*{_GROUP}{_POWER}\s*\}}\s*$"
)
_WORDS = re.compile(
    r"(?P<gap>\s*)(?P<unit>(?:[A-Za-z]+\.?"
    + _POWER
    + r")(?:(?:\s*[/*]\s*|\s*\\cdot\s*|\s+)(?:[A-Za-z]+\.?"
    + _POWER
    + r"))*)\s*$"
)
_CURRENCY = re.compile(
    r"^(?P<minus>-?)\s*(?P<sign>\\\$|\$|\N{EURO SIGN}|\N{POUND SIGN}|\N{YEN SIGN}|\\euro(?![A-Za-z])|\\pounds(?![A-Za-z])|US\\?\$|USD|EUR|GBP|INR|Rs\.?|\N{INDIAN RUPEE SIGN})\s*(?=[\d.])"  # noqa: E501  a pattern, whole on a line
)
_TRAILING_CURRENCY = re.compile(r"(?<=\d)\s*(\\\$|\N{EURO SIGN}|\N{POUND SIGN}|\N{YEN SIGN}|\N{CENT SIGN}|\\cent)\s*$")
_SIGN_NAMES = {
    "\\$": "dollar",
    "$": "dollar",
    "\N{EURO SIGN}": "euro",
    "\N{POUND SIGN}": "pound sterling",
    "\N{YEN SIGN}": "yen",
}
_SIGN_NAMES |= {"\N{CENT SIGN}": "cent", "\\cent": "cent", "US\\$": "dollar", "US$": "dollar", "USD": "dollar"}
_SIGN_NAMES |= {"EUR": "euro", "GBP": "pound sterling", "INR": "rupee", "Rs": "rupee", "Rs.": "rupee"}
_SIGN_NAMES |= {"\N{INDIAN RUPEE SIGN}": "rupee"}
_SIGN_NAMES |= {"\\euro": "euro", "\\pounds": "pound sterling"}
_ORDINAL = re.compile(
    r"(?<=\d)\s*(?:\^\s*)?(?:\{?\s*\\(?:text|mathrm|textrm|mbox)\s*\{\s*(?:st|nd|rd|th)\s*\}\s*\}?|\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th))\s*$"
)
_VALUE_END = re.compile(r"[\d)}\]|]\s*$|\\(?:pi|infty)\s*$|(?<![A-Za-z])(?:pi|[a-z])\s*$")
_BRACED_POWER = re.compile(r"\^\s*\{\s*(-\d)\s*\}")
_MAX_UNIT = 60
_MAX_WORDS = 4


def split_percent(text: str) -> tuple[str, bool]:
    """Return the text without a closing percent sign, and whether there was one."""
    if text and text[-1] in "%}tTcC ":
        match = _PERCENT.search(text[-40:])
        if match and match.group().strip():
            return text[: len(text) - (match.end() - match.start())].rstrip(), True
    return text, False


def split_currency(text: str) -> tuple[str, str]:
    """Return the text without a currency sign before or after the number, and the currency's name or ''."""
    match = _CURRENCY.match(text)
    if match:
        return match["minus"] + text[match.end() :], _SIGN_NAMES[match["sign"]]
    after = _TRAILING_CURRENCY.search(text)
    if after:
        return text[: after.start()], _SIGN_NAMES[after[1]]
    return text, ""


def split_unit(text: str) -> tuple[str, str]:
    """Return the value part and the unit in its one spelling, '' where there is none."""
    tail = text[-_MAX_UNIT * 3 :]
    head = text[: len(text) - len(tail)]
    if "{-" in tail and ("\\mathrm" in tail or "\\text" in tail):
        tail = _BRACED_POWER.sub(r"^\1", tail)
    ordinal = _ORDINAL.search(tail)
    if ordinal:
        return head + tail[: ordinal.start()], ""
    degree = _DEGREE.search(tail)
    if (
        degree
        and not _TRIGONOMETRIC.search(text)
        and text.count("\\circ") == 1
        and head + tail[: degree.start()].strip()
    ):
        scale = degree[1] or degree[2]
        return head + tail[: degree.start()], f"degree {scale}" if scale else "degree"
    groups = _GROUPS.search(tail)
    if groups:
        value, unit = tail[: groups.start()], _spelled(groups.group())
        plain = _WORDS.search(value)
        if plain and plain["unit"] in {"square", "cubic", "sq"}:
            value, unit = value[: plain.start()], canonical(f"{plain['unit']} {unit}")
        if unit and (head + value).strip() and _VALUE_END.search(value):
            return head + value, unit
        return text, ""
    return _split_words(head, tail)


def _split_words(head: str, tail: str) -> tuple[str, str]:
    words = _WORDS.search(tail)
    if words is None or not (head + tail[: words.start()]).strip() or not _VALUE_END.search(tail[: words.start()]):
        return head + tail, ""
    unit = words["unit"]
    if _is_unit(unit, spaced=bool(words["gap"]), after=tail[: words.start()]):
        return head + tail[: words.start()], canonical(unit)
    return head + tail, ""


def _is_unit(unit: str, *, spaced: bool, after: str) -> bool:
    parts = unit.split()
    plain = [re.split(r"[\^./*]", part)[0] for part in parts]
    if any(part.lower() in NOT_UNITS for part in plain) or len(parts) > _MAX_WORDS:
        return False
    if any(len(part) == 1 and part not in CANONICAL for part in plain):
        return False  # 0.5 m v^2 is a product
    first = plain[0]
    follows_digit = bool(re.search(r"\d\s*$", after))
    if first in CANONICAL:
        if len(unit) == 1:
            return follows_digit and (spaced or unit in SINGLE_LETTERS)
        return len(first) > 1 or "/" in unit or "^" in unit or spaced
    if first in {"square", "sq", "cubic", "cu"}:
        return True
    return spaced and len(first) > 3  # noqa: PLR2004  shorter unknown words are products of variables


def _spelled(groups: str) -> str:
    """Return the canonical unit of LaTeX text groups; '' where the words say something else."""
    fraction = groups.lstrip().startswith("\\frac")
    plain = re.sub(
        r"\\frac|\\(?:text|mbox|mathrm|textrm|rm|hbox|operatorname|textit|textbf|mathit|textsf|unit)\s*", "", groups
    )
    if fraction:
        plain = re.sub(r"\}\s*\}\s*\{\s*\{", "}/{", plain)
    plain = plain.replace("{", " ").replace("}", " ").replace("\\cdot", "*").replace("\\times", "*")
    plain = re.sub(r"\s*\^\s*(-?\d)\s*", r"^\1 ", plain).strip(" .,;()")
    words = [re.split(r"[\^./*]", part)[0].lower().strip("()") for part in plain.split()]
    if (
        not words
        or len(words) > _MAX_WORDS
        or any(word in NOT_UNITS for word in words)
        or re.search(r"\d", re.sub(r"\^-?\d", "", plain))
    ):
        return ""
    return canonical(plain)


_SCALES = {"degree fahrenheit": "degree F", "degree celsius": "degree C", "degree centigrade": "degree C"}


def canonical(unit: str) -> str:
    """Return the one spelling of a unit: abbreviations, singular, `square x` as x^2, `x per y` as x/y."""
    unit = re.sub(r"\s*\^\s*\{?\s*(-?\d)\s*\}?", r"^\1", unit.strip(" .,;()"))
    unit = re.sub(r"\s*(?:/|\bper\b|\ban hour\b)\s*", "/", unit) if "per" in unit or "/" in unit else unit
    unit = re.sub(r"\b(?:square|sq)\.?\s+([A-Za-z]+)", r"\1^2", unit)
    unit = re.sub(r"\b(?:cubic|cu)\.?\s+([A-Za-z]+)", r"\1^3", unit)
    unit = re.sub(r"\b([A-Za-z]+)\s+squared\b", r"\1^2", unit)
    unit = re.sub(r"\b([A-Za-z]+)\s+cubed\b", r"\1^3", unit)
    unit = re.sub(r"(?<=\w)[\s*.]+([A-Za-z]+)\^-(\d)", _divided, unit) if "^-" in unit else unit
    unit = re.sub(r"[A-Za-z]+", lambda word: _singular(word.group()), unit)
    unit = " ".join(unit.replace("*", " ").replace(".", " ").split())
    return {"mile/h": "mph", "unit^2": "unit", "unit^3": "unit", **_SCALES}.get(unit, unit)


def _divided(part: re.Match[str]) -> str:
    return f"/{part[1]}" if part[2] == "1" else f"/{part[1]}^{part[2]}"


def _singular(word: str) -> str:
    if word in CANONICAL:
        return CANONICAL[word]
    lower = word.lower()
    if lower in CANONICAL:
        return CANONICAL[lower]
    if lower.endswith("ies") and len(lower) > 4:  # noqa: PLR2004  ties, pies
        return lower[:-3] + "y"
    return lower[:-1] if lower.endswith("s") and not lower.endswith("ss") and len(lower) > 3 else lower  # noqa: PLR2004  gas, bus
