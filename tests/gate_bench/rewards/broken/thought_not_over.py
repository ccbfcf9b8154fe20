import ast
import re
from collections import Counter


def safe(expression):
    node = ast.parse(expression, mode="eval").body

    def value(n):
        if isinstance(n, ast.Constant) and type(n.value) is int:
            return n.value
        if isinstance(n, ast.BinOp):
            a, b = value(n.left), value(n.right)
            if isinstance(n.op, ast.Add):
                return a + b
            if isinstance(n.op, ast.Sub):
                return a - b
            if isinstance(n.op, ast.Mult):
                return a * b
            if isinstance(n.op, ast.Div):
                return a / b
        raise ValueError("not plain arithmetic")

    return value(node)


def countdown(completions, target, nums, **kwargs):
    rewards = []
    for text, goal, numbers in zip(completions, target, nums):
        found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
        try:
            expression = found[-1].strip()
            used = Counter(int(n) for n in re.findall(r"\d+", expression))
            rewards.append(float(used == Counter(numbers) and abs(safe(expression) - goal) < 1e-6))
        except (IndexError, ValueError, SyntaxError, ZeroDivisionError, RecursionError):
            rewards.append(0.0)
    return rewards
