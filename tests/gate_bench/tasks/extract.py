"""JSON extraction: three keys out of one sentence; the prompt allows a code fence and nothing else around it."""

import json
import random
import re

from gate_bench.tasks.task import Problem, Task, Written, chat

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "city": {"type": "string", "minLength": 1},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
_NAMES = [
    "Ada",
    "Bruno",
    "Chen",
    "Dana",
    "Emil",
    "Fatima",
    "Georg",
    "Hana",
    "Ivan",
    "Jana",
    "Karim",
    "Lena",
    "Marco",
    "Nadia",
    "Oscar",
    "Petra",
]
_CITIES = ["Lima", "Oslo", "Kyoto", "Graz", "Turin", "Cork", "Bergen", "Dakar", "Quito", "Basel", "Porto", "Leeds"]
_ASK = (
    'Read this: "{text}"\n\nReply with one JSON object with the keys "name" (string), "age" (whole number) and "city" '
    "(string), filled from the text. You may put it in a code fence. Write nothing else."
)


def problems() -> list[Problem]:
    draw = random.Random(16)
    found = []
    for place in range(30):
        name, city, age = draw.choice(_NAMES), draw.choice(_CITIES), draw.randint(18, 90)
        text = [
            f"{name} turned {age} last week and still lives in {city}.",
            f"At {age}, {name} moved from the coast to {city} to open a shop.",
            f"Our neighbour {name} ({age}) came here from {city} by train.",
        ][place % 3]
        gold = {"name": name, "age": age, "city": city}
        row = {
            "id": f"e{place:02d}",
            "prompt": chat(_ASK.format(text=text)),
            "answer": json.dumps(gold),
            "schema": json.dumps(SCHEMA),
        }
        found.append(Problem(row, {"gold": gold}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    gold = problem.facts["gold"]
    turned = {key: gold[key] for key in ("city", "age", "name")}
    rights = [
        json.dumps(gold),
        json.dumps(gold, indent=2),
        f"```json\n{json.dumps(gold)}\n```",
        f"```\n{json.dumps(gold, indent=2)}\n```",
        json.dumps(turned),
        json.dumps(gold, separators=(",", ":")),
    ]
    older, elsewhere = {**gold, "age": gold["age"] + 1}, {**gold, "city": draw.choice(_CITIES[:3]) + "ville"}
    wrongs = [
        json.dumps(older),
        json.dumps(elsewhere),
        json.dumps({**gold, "age": str(gold["age"])}),
        json.dumps({key: gold[key] for key in ("name", "age")}),
        json.dumps({**gold, "note": "from the text"}),
        json.dumps(json.dumps(gold)),
        json.dumps([gold]),
        "{}",
        str(gold),
        json.dumps(gold)[:-1] + ",}",
        json.dumps({"name": "", "age": 0, "city": ""}),
        json.dumps({"name": "string", "age": 0, "city": "string"}),
        str(gold["age"]),
    ]
    cut = Written(json.dumps(gold)[:-9], "reject", cut=True)
    chosen = [*(Written(text, "reject") for text in draw.sample(wrongs, 4))]
    if draw.random() < 0.2:
        chosen[0] = cut
    return [*(Written(text, "accept") for text in draw.sample(rights, 3)), *chosen]


def truth(problem: Problem, text: str) -> str:
    body = text.strip()
    fence = re.fullmatch(r"```(?:json)?\n(.*?)\n?```", body, re.DOTALL)
    try:
        found = json.loads(fence[1] if fence else body)
    except ValueError:
        return "unsure" if json.dumps(problem.facts["gold"]) in " ".join(body.split()) else "reject"
    gold = problem.facts["gold"]
    same = isinstance(found, dict) and found == gold and type(found["age"]) is int
    return "accept" if same else "reject"


TASK = Task("extract", 64, problems, written, truth)
