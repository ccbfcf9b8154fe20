import ast
import re
from collections import Counter

FORM = re.compile(r"<think>[^<]*</think>\s*<answer>([\d+\-*/() \n]{1,120})</answer>\s*")


def value(node):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = value(node.left), value(node.right)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
    raise ValueError("only numbers, + - * / and brackets")


def solved(expression, nums, target):
    if Counter(int(n) for n in re.findall(r"\d+", expression)) != Counter(nums):
        return False
    try:
        return abs(value(ast.parse(expression.strip(), mode="eval").body) - target) < 1e-6
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError):
        return False


def countdown(completions, nums, target, **kwargs):
    rewards = []
    for text, numbers, goal in zip(completions, nums, target):
        match = FORM.fullmatch("<think>" + text.lstrip().removeprefix("<think>"))
        rewards.append(1.0 if match and solved(match[1], numbers, goal) else 0.0)
    return rewards
