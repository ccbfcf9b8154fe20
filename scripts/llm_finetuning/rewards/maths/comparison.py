"""Whether an answer says what the gold says, type by type; unsure is never equal.

Decimals count for an exact value without an end (1/3, pi) from ten right digits on. A unit may be left out on either
side, never changed. Percentages are their value. Lists and sets have no order, tuples have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from llm_finetuning.rewards.maths import words
from llm_finetuning.rewards.maths.exact import UndefinedError, exact_value
from llm_finetuning.rewards.maths.forms import (
    Group,
    Matrix,
    Named,
    Opaque,
    Ratio,
    Region,
    Relation,
    Residue,
    Scalar,
    Value,
    Words,
    as_region,
    as_words,
    is_infinite,
    with_matching_names,
)
from llm_finetuning.rewards.maths.nodes import Node, is_of_letters, variables
from llm_finetuning.rewards.maths.notation import literal
from llm_finetuning.rewards.maths.regions import same_region
from llm_finetuning.rewards.maths.values import UndecidedError, are_equal, ratio, real_value

RIGHT_DIGITS = 10  # of a decimal that stands for a value without an end


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may lie from the gold; zero, the default, asks for equality."""

    relative: float = 0.0
    absolute: float = 0.0


EXACT = Tolerance()


def says_the_same(gold: Value, answer: Value, tolerance: Tolerance = EXACT) -> bool:
    """Tell whether the answer equals the gold; raises TooLargeError, UndefinedError and UndecidedError."""
    gold, answer = with_matching_names(gold, answer)
    if isinstance(gold, Named) and isinstance(answer, Named):
        return _named(gold, answer, tolerance)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _relations(gold, answer, tolerance)
    if isinstance(gold, Named):
        return says_the_same(gold.value, answer, tolerance)
    if isinstance(answer, Named):
        return says_the_same(gold, answer.value, tolerance)
    gold, answer = _only_member(gold), _only_member(answer)
    comparison = _BY_TYPE.get((type(gold), type(answer)))
    if comparison is not None:
        return comparison(gold, answer, tolerance)
    return _as_regions(gold, answer) or _as_vectors(gold, answer, tolerance)


def _only_member(value: Value) -> Value:
    """Return the member of a set of one: both say what the answer is."""
    if not isinstance(value, Group) or value.kind != "set" or value.items[1:] or value.items[:1] == (Group("set", ()),):
        return value
    return value.items[0] if value.items else value


def _named(gold: Named, answer: Named, tolerance: Tolerance) -> bool:
    if gold.name == answer.name and says_the_same(gold.value, answer.value, tolerance):
        return True
    if isinstance(gold.value, Scalar) and isinstance(answer.value, Scalar) and gold.left and answer.left:
        mentioned = variables(gold.value.node) | variables(answer.value.node)
        if gold.name != answer.name and not mentioned:
            return False
        return _proportional(_zero_side(gold), _zero_side(answer)) != 0
    return False


def _zero_side(value: Named | Relation) -> Node:
    """Return left - right."""
    if isinstance(value, Relation):
        return Node("add", (value.left, Node("neg", (value.right,))))
    assert isinstance(value.value, Scalar)
    assert value.left is not None
    return Node("add", (value.left, Node("neg", (value.value.node,))))


def _relations(gold: Value, answer: Value, tolerance: Tolerance) -> bool:
    if isinstance(gold, Scalar) and isinstance(answer, Relation):
        # `m + n = 79` is 79: letters alone that make a number are what was asked for; `x + 2y = 6` is a line.
        is_asked = answer.operator == "=" and is_of_letters(answer.left) and not variables(answer.right)
        return is_asked and _scalars(gold, Scalar(answer.right), tolerance)
    one, other = _as_relation(gold), _as_relation(answer)
    if one is None or other is None or one.operator != other.operator:
        return False
    sign = _proportional(_zero_side(one), _zero_side(other))
    return sign > 0 if one.operator in {"<", "<="} else sign != 0


def _proportional(left: Node, right: Node) -> int:
    try:
        return ratio(left, right)
    except (UndefinedError, UndecidedError):
        return 0


def _as_relation(value: Value) -> Relation | None:
    if isinstance(value, Relation):
        return value
    if isinstance(value, Named) and isinstance(value.value, Scalar) and value.left is not None:
        return Relation("=", value.left, value.value.node)
    if isinstance(value, Region) and value.name and len(value.spans) == 1:
        span = value.spans[0]
        variable = Node("var", name=value.name)
        if span.low is not None and span.high is None:
            return Relation("<=" if span.has_low else "<", span.low, variable)
        if span.high is not None and span.low is None:
            return Relation("<=" if span.has_high else "<", variable, span.high)
    return None


def _scalars(gold: Scalar, answer: Scalar, tolerance: Tolerance) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if gold.is_percent != answer.is_percent and (gold.unit or answer.unit):
        return False
    if _numbers(gold, answer, tolerance):
        return True
    # A percent sign may be left out like a unit, but not added: 50 for 50% is the number that was asked for.
    return gold.is_percent and not answer.is_percent and _numbers(Scalar(gold.node.parts[0]), answer, tolerance)


def _numbers(gold: Scalar, answer: Scalar, tolerance: Tolerance) -> bool:  # noqa: PLR0911  one return a rule of comparison
    one, other = gold.node, answer.node
    if _has_other_base(one, other):
        return False
    if is_infinite(one) or is_infinite(other):
        return is_infinite(one) and is_infinite(other) and _sign(one) == _sign(other)
    if gold.unit == "degree" and answer.unit != "degree" and _mentions_pi(other):
        return False
    free, extra = variables(one), variables(other) - variables(one)
    if extra:
        # A variable that the gold does not have is a different answer, but for the name of a constant of integration.
        renamed = _renamed_constant(free, extra, other)
        return renamed is not None and are_equal(one, renamed)
    if are_equal(one, other):
        return True
    if free:
        return False
    if answer.digits >= RIGHT_DIGITS and _rounds_to(one, answer):
        return True
    if gold.digits >= RIGHT_DIGITS and _rounds_to(other, gold):
        return True
    return bool(tolerance.relative or tolerance.absolute) and _within(one, other, tolerance)


_CONSTANTS_OF_INTEGRATION = frozenset(["C", "c", "K", "k", "C_1", "c_1"])


def _renamed_constant(free: frozenset[str], extra: frozenset[str], node: Node) -> Node | None:
    """Return the node with its one constant of integration named as the gold names it, None if that is not the case."""
    wanted = (free - variables(node)) & _CONSTANTS_OF_INTEGRATION
    if len(wanted) != 1 or len(extra) != 1 or not extra <= _CONSTANTS_OF_INTEGRATION:
        return None
    (old,), (new,) = extra, wanted

    def rename(part: Node) -> Node:
        if part.kind == "var" and part.name == old:
            return part._replace(name=new)
        return part._replace(parts=tuple(rename(inner) for inner in part.parts))

    return rename(node) if node.kind == "add" else None


def _mentions_pi(node: Node) -> bool:
    return (node.kind == "const" and node.name == "pi") or any(_mentions_pi(part) for part in node.parts)


def _has_other_base(one: Node, other: Node) -> bool:
    """Tell whether the bases that are written differ; a number without a base has none to differ in."""
    first, second = _base(one), _base(other)
    if first and second:
        return first != second
    if first or second:
        # 2516 for 2516_8 leaves the base out; 1358 for it would be another number system.
        based, plain = (one, other) if first else (other, one)
        return plain.name != based.name.partition(":")[2]
    return False


def _base(node: Node) -> str:
    return node.name.partition(":")[0] if node.name.startswith("base") else ""


def _sign(node: Node) -> int:
    return -_sign(node.parts[0]) if node.kind == "neg" else 1


def _rounds_to(exact: Node, decimal: Scalar) -> bool:
    """Tell whether a decimal is right to its last digit for a value whose decimals have no end."""
    value = exact_value(exact)
    if value is not None and _ends(value):
        return False
    places = len(decimal.node.name.partition(".")[2])
    if value is not None:
        return abs(value - (decimal.node.number or 0)) <= Fraction(1, 10**places)
    return bool(abs(real_value(Node("add", (exact, Node("neg", (decimal.node,)))), places + 20)) <= 10.0**-places)


def _ends(value: Fraction) -> bool:
    bottom = value.denominator
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    return bottom == 1


def _within(gold: Node, answer: Node, tolerance: Tolerance) -> bool:
    one, other = real_value(gold), real_value(answer)
    return bool(abs(one - other) <= max(tolerance.relative * abs(one), tolerance.absolute))


def _groups(gold: Group, answer: Group, tolerance: Tolerance) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    ordered = {"tuple", "series"}
    if gold.kind in ordered or answer.kind in ordered:
        same_kind = gold.kind == answer.kind and (
            gold.brackets == answer.brackets or "<>" in {gold.brackets, answer.brackets}
        )
        loose = {gold.kind, answer.kind} == {"series", "list"} or (gold.kind == answer.kind == "series")
        if not same_kind and not loose:
            return False
        return len(gold.items) == len(answer.items) and all(
            says_the_same(one, other, tolerance) for one, other in zip(gold.items, answer.items, strict=True)
        )
    return _same_members(gold.items, answer.items, tolerance)


def _same_members(gold: Sequence[Value], answer: Sequence[Value], tolerance: Tolerance) -> bool:
    """Tell whether each member has its partner, whatever the order."""
    if len(gold) != len(answer):
        return False
    left = list(answer)
    for one in gold:
        for place, other in enumerate(left):
            if _safely_same(one, other, tolerance):
                del left[place]
                break
        else:
            return False
    return True


def _safely_same(gold: Value, answer: Value, tolerance: Tolerance) -> bool:
    # A member without a value (0/0) is no partner of any, but must not hide that the others match.
    try:
        return says_the_same(gold, answer, tolerance)
    except (UndefinedError, UndecidedError):
        return False


def _as_regions(gold: Value, answer: Value) -> bool:
    """Compare as parts of the real line where at least one side is written as one."""
    if not (isinstance(gold, Region) or isinstance(answer, Region)):
        return False
    one, other = as_region(gold), as_region(answer)
    return one is not None and other is not None and same_region(one, other)


def _matrices(gold: Matrix, answer: Matrix, tolerance: Tolerance) -> bool:
    if [len(row) for row in gold.rows] != [len(row) for row in answer.rows]:
        return False
    pairs = zip((cell for row in gold.rows for cell in row), (cell for row in answer.rows for cell in row), strict=True)
    return all(_scalars(Scalar(one), Scalar(other), tolerance) for one, other in pairs)


def _as_vectors(gold: Value, answer: Value, tolerance: Tolerance) -> bool:
    """Compare a column or row with a tuple: both write a vector."""
    one, other = _vector(gold), _vector(answer)
    if one is None or other is None or len(one) != len(other):
        return False
    return isinstance(gold, Matrix) != isinstance(answer, Matrix) and all(
        says_the_same(first, second, tolerance) for first, second in zip(one, other, strict=True)
    )


def _vector(value: Value) -> Sequence[Value] | None:
    if isinstance(value, Group) and value.kind == "tuple":
        return value.items
    if isinstance(value, Matrix):
        if len(value.rows) == 1:
            return [Scalar(cell) for cell in value.rows[0]]
        if len(value.rows[0]) == 1:
            return [Scalar(row[0]) for row in value.rows]
    return None


def _residues(gold: Residue, answer: Residue, tolerance: Tolerance) -> bool:
    if not _numbers(Scalar(gold.modulus), Scalar(answer.modulus), tolerance):
        return False
    one, other, modulus = exact_value(gold.node), exact_value(answer.node), exact_value(gold.modulus)
    if one is None or other is None or not modulus:
        return are_equal(gold.node, answer.node)
    return (one - other) % modulus == 0


def _residue_and_number(gold: Value, answer: Value, tolerance: Tolerance) -> bool:
    """Let the modulus be left out like a unit, if the residue is the same number."""
    one = Scalar(gold.node) if isinstance(gold, Residue) else gold
    other = Scalar(answer.node) if isinstance(answer, Residue) else answer
    return says_the_same(one, other, tolerance)


def _ratios(gold: Ratio, answer: Ratio, tolerance: Tolerance) -> bool:
    return len(gold.items) == len(answer.items) and all(
        _numbers(Scalar(one), Scalar(other), tolerance) for one, other in zip(gold.items, answer.items, strict=True)
    )


def _words(gold: Words, answer: Words, tolerance: Tolerance) -> bool:
    del tolerance
    if gold.text == answer.text or words.same_words(gold.text, answer.text):
        return True
    time = words.clock(gold.text)
    return (
        bool(time) and words.clock(answer.text) == time and None in {words.moment(gold.text), words.moment(answer.text)}
    )


def _opaque(gold: Opaque, answer: Opaque, tolerance: Tolerance) -> bool:
    del tolerance
    return literal(gold.text) == literal(answer.text)


def _never(gold: Value, answer: Value, tolerance: Tolerance) -> bool:
    del gold, answer, tolerance
    return False


_BY_TYPE: dict[tuple[type, type], Callable[[Any, Any, Tolerance], bool]] = {
    (Scalar, Scalar): _scalars,
    (Group, Group): _groups,
    (Region, Region): lambda gold, answer, _: same_region(gold, answer),
    (Matrix, Matrix): _matrices,
    (Residue, Residue): _residues,
    (Residue, Scalar): _residue_and_number,
    (Scalar, Residue): _residue_and_number,
    (Ratio, Ratio): _ratios,
    (Words, Words): _words,
    (Words, Group): lambda gold, answer, tolerance: _words(gold, as_words(answer), tolerance),
    (Group, Words): lambda gold, answer, tolerance: _words(as_words(gold), answer, tolerance),
    (Opaque, Opaque): _opaque,
    (Scalar, Group): _never,
    (Group, Scalar): _never,
}


def agree_in_chain(values: Sequence[Value], operators: Sequence[str]) -> bool:
    """Tell whether all members of `a = b ~ c` are equal; after `~` a decimal must be right to its last digit."""
    for place, operator in enumerate(operators):
        one, other = values[place], values[place + 1]
        try:
            if operator == "~" and isinstance(one, Scalar) and isinstance(other, Scalar):
                if not _roughly(one.node, other.node):
                    return False
            elif not says_the_same(one, other):
                return False
        except (UndefinedError, UndecidedError):
            return False
    return True


def _roughly(one: Node, other: Node) -> bool:
    if variables(one) or variables(other):
        return False
    name = other.name.partition(".")[2] if other.kind == "num" else ""
    return bool(abs(real_value(Node("add", (one, Node("neg", (other,)))))) < 10.0 ** -len(name))
