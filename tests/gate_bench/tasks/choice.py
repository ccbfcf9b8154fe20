"""Multiple choice with five options: the prompt asks for the letter of one."""

import random
import re

from gate_bench.tasks.task import Problem, Task, Written, chat

LETTERS = "ABCDE"

_FACTS = [
    ("What is the capital of France?", "Paris", "Lyon Rome Madrid Vienna"),
    ("What is the capital of Italy?", "Rome", "Milan Paris Athens Bern"),
    ("What is the capital of Canada?", "Ottawa", "Toronto Montreal Calgary Quebec"),
    ("What is the capital of Australia?", "Canberra", "Sydney Perth Melbourne Hobart"),
    ("What is the capital of Egypt?", "Cairo", "Luxor Tunis Amman Rabat"),
    ("What is the capital of Norway?", "Oslo", "Bergen Stockholm Helsinki Malmo"),
    ("What is the capital of Japan?", "Tokyo", "Osaka Seoul Kyoto Beijing"),
    ("What is the capital of Brazil?", "Brasilia", "Rio Recife Lima Salvador"),
    ("What is the capital of Kenya?", "Nairobi", "Mombasa Kampala Dodoma Lagos"),
    ("What is the capital of Turkey?", "Ankara", "Istanbul Izmir Athens Sofia"),
    ("Which planet is closest to the sun?", "Mercury", "Venus Earth Mars Jupiter"),
    ("Which planet is the largest?", "Jupiter", "Saturn Earth Mars Neptune"),
    ("Which gas do plants take in?", "carbon dioxide", "oxygen helium argon neon"),
    ("Which metal is liquid at room temperature?", "mercury", "iron copper zinc gold"),
    ("Which animal is a mammal?", "whale", "shark trout eagle frog"),
    ("Which number is prime?", "17", "15 21 27 33"),
    ("What is 7 times 8?", "56", "54 48 64 63"),
    ("What is 12 squared?", "144", "124 122 142 132"),
    ("How many sides has a hexagon?", "six", "five seven eight four"),
    ("Which animal barks?", "dog", "cat cow hen owl"),
    ("Who wrote Hamlet?", "Shakespeare", "Dickens Milton Homer Goethe"),
    ("Who painted the Mona Lisa?", "Leonardo", "Raphael Monet Picasso Titian"),
    ("Which ocean is the largest?", "Pacific", "Atlantic Indian Arctic Southern"),
    ("Which is the longest river of Africa?", "Nile", "Congo Niger Zambezi Volta"),
    ("What is frozen water called?", "ice", "steam fog dew rain"),
    ("How many days has a leap year?", "366", "365 364 360 367"),
    ("Which colour do blue and yellow make?", "green", "red orange purple black"),
    ("Which organ pumps the blood?", "heart", "liver lung kidney brain"),
    ("What do bees make?", "honey", "milk silk oil wax paper"),
    ("Which season follows spring?", "summer", "winter autumn spring monsoon"),
]


def problems() -> list[Problem]:
    draw = random.Random(15)
    found = []
    for place, (question, right, others) in enumerate(_FACTS):
        options = [right, *others.split()[:4]]
        draw.shuffle(options)
        gold = LETTERS[options.index(right)]
        lines = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=True))
        ask = f"{question}\n{lines}\n\nThink briefly if you need to and say which one option is right, by its letter."
        row = {"id": f"m{place:02d}", "prompt": chat(ask), "answer": gold, "options": options}
        found.append(Problem(row, {"gold": gold, "text": right, "options": options}))
    return found


def written(problem: Problem, draw: random.Random) -> list[Written]:
    gold, options = problem.facts["gold"], problem.facts["options"]
    text = problem.facts["text"]
    bad = draw.choice([letter for letter in LETTERS if letter != gold])
    bad_text = options[LETTERS.index(bad)]
    rights = [
        f"The answer is {gold}.",
        f"{gold}",
        f"({gold}) {text}",
        f"{gold}. {text}",
        f"The answer is **{gold}**.",
        f"I think a short look at the options rules out {bad_text}.\n\nAnswer: {gold}",
        f"It is not {bad}, since {bad_text} does not fit. The correct option is {gold}.",
        f"\\boxed{{{gold}}}",
    ]
    wrongs = [
        Written(f"The answer is {bad}.", "reject"),
        Written(f"I think a good pick is {bad}.", "reject"),
        Written(f"{bad}. {bad_text}", "reject"),
        Written(f"{gold}/{bad}", "reject"),
        Written(f"It could be {gold} or {bad}.", "reject"),
        Written(f"I first thought of {gold}, but the answer is {bad}.", "reject"),
        Written("All of the options are possible.", "reject"),
        Written(
            f"Let me go through them. A is {options[0]}, B is {options[1]}, C is {options[2]}, D", "reject", cut=True
        ),
        Written(f"The answer is not {gold}.", "reject"),
        Written(f"({bad}) {bad_text}", "reject"),
    ]
    return [*(Written(said, "accept") for said in draw.sample(rights, 3)), *draw.sample(wrongs, 4)]


def truth(problem: Problem, text: str) -> str:
    """Judge the plain forms; a text that names several letters or only an option's words is a matter of taste."""
    gold, bare = problem.facts["gold"], text.strip()
    if re.search(r"\b(or|not [A-E]|could be|all of)\b|[A-E]/[A-E]", bare) and "since" not in bare:
        return "reject"
    named = re.findall(r"(?:answer|option) is:?\s*\**\(?([A-E])\b", bare) or re.findall(r"Answer: ([A-E])\b", bare)
    if not named:
        first = re.match(r"\W*(?:\\boxed\{)?([A-E])(?:[\s.):}*]|$)", bare)
        others = set(re.findall(r"(?m)^\W*([A-E])[.)]", bare))
        if first and len(others) <= 1 and not re.match(r"A [a-z]", bare):
            named = [first[1]]
    if named:
        return "accept" if named[-1] == gold and len(set(named)) == 1 else "reject"
    return "unsure" if problem.facts["text"].lower() in bare.lower() else "reject"


TASK = Task("choice", 64, problems, written, truth)
