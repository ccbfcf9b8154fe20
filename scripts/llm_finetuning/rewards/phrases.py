"""The final answer of a text without a marker: the last `the answer is ...`, or a line that is nothing but an answer."""  # noqa: E501  one sentence, as a docstring's first line has to be

import re

_LEAD = r"(?:\*\*|__|[*_`])?"
_PHRASE = re.compile(
    r"\b(?:(?:final|correct|right|best)\s+)*(?P<noun>ans|answer|result|solution|option|choice)s?\b"
    r"(?:\s+(?:to|for|of|in)\s+(?!is\b|are\b)[^.:\n=]{0,60}?|\s+here|\s+I\s+(?:get|got|found|obtain))?"
    r"(?:\*\*|__)?\s*(?:(?P<mark>[:=\uff1a])\s*|\b(?:is|are|would be|should be|must be|will be|equals|becomes|turns out to be|comes out to)\b(?!\s*n[o']t\b)"  # noqa: E501  a pattern, whole on a line
    r"(?:\s+(?:therefore|thus|then|indeed|simply|clearly|definitely|certainly|hence|just|now|given by|equal to|exactly|option|choice|the number|the value))*\s*[:=]?\s*)"  # noqa: E501  a pattern, whole on a line
    r"|\u7b54\u6848\s*(?:\u662f|\u4e3a|\u70ba)?\s*[:\uff1a]?\s*"
    r"|(?:^|\n)[ \t]*(?:\#+|\*\*)[ \t]*(?:final[ \t]+)?answer[ \t]*(?:\*\*)?[ \t]*:?[ \t]*(?=\n)"
    r"|(?:^|\n)[ \t]*(?:respuesta|antwort|r\u00e9ponse|risposta|resposta)\s*(?:final[e]?)?\s*:\s*",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"\b(?:I|we)(?:'d|\s+would|\s+will|'ll)?\s+(?:choose|pick|select|go with|answer|chose|vote for)\s+(?:option\s+|choice\s+|answer\s+)?(?P<rest>[^\n]{1,80})"  # noqa: E501  a pattern, whole on a line
    r"|\b(?:pick|guess)\s+is\s+(?:option\s+)?(?P<pick>[^\n]{1,80})",
    re.IGNORECASE,
)
_IS_RIGHT = re.compile(
    r"\b(?:option|choice|answer)\s+\(?(?P<letter>[A-J])\)?\s+is\s+(?:the\s+)?(?:correct|right|best)\b", re.IGNORECASE
)

_SENTENCE_END = re.compile(
    r"\n|\.(?=[\s*_\"']|$)|;\s(?!\s*[-$\\(]*\d)|\s\((?=(?:since|because|as|i\.e\.|which|where|from)\b)|\?|!(?=\s|$)|\s(?:because|since|which|where|whereas|so that|due to|as we|as can|as shown|i\.e\.|given that|if)\b"  # noqa: E501  a pattern, whole on a line
    r"|,\s*(?:which|because|since|so|where|as|but|giving|thus|hence|therefore|I\b|we\b|not\b|(?:the|an?)\s+[a-z]+\b|i\.e\.|by\b|with\b|obtained\b)|\s[-\u2013\u2014]{1,2}\s(?=[A-Za-z]{2})|\s*\u2014"
)
_MATH = re.compile(r"\s*(?:\$\$(?P<a>[^$]+)\$\$|\$(?P<b>[^$\n]+)\$|\\\((?P<c>.+?)\\\)|\\\[(?P<d>.+?)\\\])", re.DOTALL)
_BETWEEN = re.compile(r"\s*(?:,\s*(?:and|or)\b|,|;|and\b|or\b)(?=\s*(?:\$|\\\(|\\\[))")
_HEDGE = re.compile(r"\s*,?\s*\bor\b\s*(?:maybe|perhaps|possibly)?\s*\S")
_GOES_ON = re.compile(r"\s*[-+*/^\u2212\u00d7]\s*[\d$\\(]")
_UNIT = re.compile(r"\s*\\?[A-Za-z%][A-Za-z/^\d%\\ ]{0,40}$")
_OPEN_MARKUP = " \t*_`\"'>:"
_MAX_REST = 2_000
_MAX_LINE = 200
_MAX_BARE = 80


def phrase_answer(text: str) -> str | None:
    """Return the answer after the last answer phrase; '' if the phrase is a question or holds nothing; None without one."""  # noqa: E501  one sentence, as a docstring's first line has to be
    last: re.Match[str] | None = None
    for match in _PHRASE.finditer(text):
        if match["noun"] and match["noun"].lower() in {"result", "solution"} and "\n" in text[match.end() :].strip():
            continue  # a result on the way is no final answer
        last = match
    chosen = None
    for found in _CHOSEN.finditer(text):
        chosen = found
    for found in _IS_RIGHT.finditer(text):
        chosen = found
    if chosen is not None and (last is None or chosen.start() > last.start()):
        groups = chosen.groupdict()
        return cut_answer(groups.get("rest") or groups.get("pick") or groups.get("letter") or "")
    if last is None:
        return None
    rest = text[last.end() : last.end() + _MAX_REST]
    return cut_answer(rest)


def marked_answer(text: str, begin: int) -> str | None:
    """Return the number or formula on an `Answer:` or `####` line after a place, None if there is none."""
    last = None
    for match in _MARKED.finditer(text, begin):
        last = match
    return last["rest"].strip(" *_") if last else None


_MARKED = re.compile(
    r"(?:^|\n)[ \t*_]*(?:\#{4}|(?:final[ \t]+)?answer[ \t*_]*[:=])[ \t*_]*(?P<rest>[-+$\\(\[]*[ \t]*[\d\\][^\n]{0,200})",  # noqa: E501  a pattern, whole on a line
    re.IGNORECASE,
)


def cut_answer(rest: str) -> str:
    """Return the answer at the start of a text: its formulas, or its first sentence without what explains it."""
    rest = rest.lstrip().lstrip(_OPEN_MARKUP).lstrip()
    if rest.startswith(("$", "\\(", "\\[")):
        formulas = _formulas(rest)
        if formulas is not None:
            return formulas
    end = _SENTENCE_END.search(rest)
    while (
        end is not None
        and end.group() == "."
        and re.search(r"\b[ap]\.?m?$", rest[: end.start()])
        and re.match(r"\.?\s*m\.", rest[end.start() + 1 :])
    ):
        end = _SENTENCE_END.search(rest, end.end())
    if end is not None and end.group() == "?":
        return ""
    sentence = rest[: end.start()] if end else rest
    return sentence.strip().rstrip("*_`\"'").strip()


def _formulas(rest: str) -> str | None:
    """Return the formulas that the text starts with, joined as they are joined in it."""
    match = _MATH.match(rest)
    if match is None:
        return None
    parts = [_inside(match)]
    place = match.end()
    while True:
        between = _BETWEEN.match(rest, place)
        following = _MATH.match(rest, between.end()) if between else None
        if between is None or following is None:
            break
        word = between.group().strip(" ,;")
        parts.append(f" {word} " if word else ", ")
        parts.append(_inside(following))
        place = following.end()
    line = rest[place:].split("\n", 1)[0]
    if line.lstrip().startswith("?"):
        return ""
    if _HEDGE.match(line) or _GOES_ON.match(line):
        parts.append(line)
    else:
        sentence = re.split(r"[.,;!](?:\s|$)", line, maxsplit=1)[0]
        if _UNIT.fullmatch(sentence):
            parts.append(" " + sentence)
    return "".join(parts)


def _inside(match: re.Match[str]) -> str:
    return next(part for part in match.groups() if part is not None)


_CONNECTIVE = re.compile(
    r"^(?:so|thus|hence|therefore|then|finally|\\therefore|\u2234)\b[,:]?\s*(?:we\s+(?:get|have|find|obtain)(?:\s+that)?\s*:?\s*)?",
    re.IGNORECASE,
)
_FORMULA_LINE = re.compile(r"(?:\$\$?[^$]+\$\$?|\\\(.+\\\)|\\\[.+\\\])[.,!]?", re.DOTALL)
_PLAIN_FORMULA = re.compile(r"(?:[A-Za-z](?:\([a-z]\))?\s*=\s*)?[-+\u2212(\[{\\$\u20ac\u00a3\u221a\d.][^\n]{0,80}")
_BARE_NUMBER = re.compile(r"[-\u2212]?\d[\d.,/]{0,40}")
_MAX_NUMBERS = 200
_LONG_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}")


def bare_answer(text: str) -> str | None:  # noqa: PLR0911  one return a form of text
    """Return the whole text if it is one short line, else the last line or display if it is nothing but a formula."""
    text = text.strip()
    if not text:
        return None
    if len(text) <= _MAX_LINE and "\n" not in text:
        line = _CONNECTIVE.sub("", text.strip(_OPEN_MARKUP))
        return None if line.endswith("?") else line
    display = _last_display(text)
    if display is not None:
        return display
    line = text[text.rfind("\n") + 1 :].strip()
    if len(line) > _MAX_BARE:
        return None
    line = _CONNECTIVE.sub("", line.strip(_OPEN_MARKUP)).strip()
    if _BARE_NUMBER.fullmatch(line):
        return ", ".join(_last_numbers(text))
    if _FORMULA_LINE.fullmatch(line):
        return line
    if _PLAIN_FORMULA.fullmatch(line) and not _LONG_WORD.search(line) and not line.endswith("?"):
        return line
    return line if re.fullmatch(r"\(?[A-J]\)?\.?", line) else None


def _last_numbers(text: str) -> list[str]:
    """Return the numbers that the last lines consist of: numbers line by line are a list, not one answer."""
    numbers: list[str] = []
    for line in reversed(text.splitlines()):
        number = line.strip(_OPEN_MARKUP)
        if number and not _BARE_NUMBER.fullmatch(number):
            break
        if number:
            numbers.insert(0, number)
        if len(numbers) > _MAX_NUMBERS:
            break
    return numbers


def _last_display(text: str) -> str | None:
    stripped = text.rstrip(" .,\n")
    for opening, closing in (("\\[", "\\]"), ("$$", "$$")):
        if stripped.endswith(closing):
            end = len(stripped) - 2
            begin = stripped.rfind(opening, 0, end)
            if begin >= 0 and end - begin <= _MAX_REST:
                return stripped[begin + 2 : end]
    return None
