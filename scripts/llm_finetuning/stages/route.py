"""From answers to one method, or to the way out of training: a table of questions and a table of rules.

Sources: DPO (Rafailov et al., 2023, arXiv:2305.18290), with pairs of the model's own (Tajwar et al., 2024,
arXiv:2404.14367); KTO (Ethayarajh et al., 2024, arXiv:2402.01306); ORPO (Hong et al., 2024, arXiv:2403.07691); SimPO
(Meng et al., 2024, arXiv:2405.14734); GRPO (Shao et al., 2024, arXiv:2402.03300), where a group that is paid alike
teaches nothing (DAPO: Yu et al., 2025, arXiv:2503.14476, section 3.2); retrieval against training for facts (Ovadia et
al., 2023, arXiv:2312.05934). FEW_ROWS is where OpenAI's guide starts (developers.openai.com/docs/guides/distillation,
read on 30 November 2026, which also wants evaluations first); a rule of thumb, not a measurement of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

FEW_ROWS = 50
FEW, ENOUGH = f"under-{FEW_ROWS}", f"{FEW_ROWS}-or-more"

OFF_RAMPS = "skills/finetuning-method-selection/references/off-ramps.md"

YES_NO: Mapping[str, str] = {"yes": "", "no": ""}

Answers = Mapping[str, str]
"""Key of a question -> one of its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with every answer that it takes."""

    key: str
    asks: str
    values: Mapping[str, str]  # value -> what it means; empty where the value says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A leaf of the tree: a method, or an off-ramp that trains nothing here."""

    name: str  # of a method as in a brief
    kind: Literal["method", "off-ramp"]
    title: str
    note: str  # what to know of it, whatever led there
    next_action: str
    next_command: str | None  # None where no verb of ours does it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the tree; the first whose conditions all hold decides."""

    when: Mapping[str, tuple[str, ...]]  # question -> the answers that the rule takes
    outcome: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Another answer to one question, and where it would have led with all other answers as they are."""

    question: str
    value: str
    outcome: str | None  # None: further questions decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the answers lead."""

    outcome: Outcome | None  # None while questions are open
    reasons: list[str]
    changes: list[Change]
    open_questions: list[Question]  # the one to ask now first; then those that may matter, depending on answers
    unused: list[str]  # keys of answers that make no difference beside the others


QUESTIONS: tuple[Question, ...] = (
    Question(
        key="teach",
        asks="What should the model have that it lacks now?",
        values={
            "changing-facts": "facts that change: prices, stock, documents, news",
            "changing-behaviour": "behaviour or wording that is still being decided",
            "stable-knowledge": "a large body of knowledge that stays: a field, a language, a code base",
            "stable-skill": "a skill or manner that stays: a task to solve, a format, a tone",
        },
    ),
    Question(key="evaluation", asks="Are there held-out rows, and a score for them that you trust?", values=YES_NO),
    Question(
        key="base_success",
        asks="How often does the base model succeed on those rows, with the best prompt you have?",
        values={
            "never": "not once in many samples",
            "sometimes": "",
            "always": "or often enough for your purpose",
            "not-measured": "",
        },
    ),
    Question(key="images", asks="Does the model have to look at images?", values=YES_NO),
    Question(
        key="signal",
        asks="What says which answer is right? Take the first that you have.",
        values={
            "checker": "a program can check success: tests, an exact answer, a schema",
            "pairs": "two answers of one prompt, and which is better",
            "thumbs": "single answers marked good or bad, not in pairs",
            "demonstrations": "good answers to imitate",
            "rubric": "a description of what is good, or a model's opinion, alone",
            "none": "",
        },
    ),
    Question(key="rows", asks="How many of those are there, without duplicates?", values={FEW: "", ENOUGH: ""}),
    Question(
        key="sft_checkpoint",
        asks="Was the model you start from already tuned on demonstrations of this task or manner?",
        values=YES_NO,
    ),
    Question(
        key="memory",
        asks="Is there memory for a second, frozen copy of the model?",
        values={"fits": "or LoRA is used, which needs no copy", "tight": ""},
    ),
    Question(
        key="length_bias",
        asks="Is the better answer of a pair mostly the longer one, or did DPO make the model wordy?",
        values=YES_NO,
    ),
    Question(
        key="sweep",
        asks="Is there a budget for several runs that search learning rate, beta and gamma?",
        values=YES_NO,
    ),
)

RULES: tuple[Rule, ...] = (
    Rule(
        when={"teach": ("changing-facts",)},
        outcome="retrieval",
        because="facts that change are out of date in the weights on the day after training",
    ),
    Rule(
        when={"teach": ("changing-behaviour",)},
        outcome="prompting",
        because="a prompt is changed in a minute, a model in days; train what has stopped moving",
    ),
    Rule(
        when={"teach": ("stable-knowledge",)},
        outcome="continued-pretraining",
        because="a body of knowledge needs far more text than the methods here take; they teach what to do with it",
    ),
    Rule(
        when={"evaluation": ("no",)},
        outcome="evaluation-first",
        because="without an evaluation nobody can tell whether training helped, or whether it is needed",
    ),
    Rule(
        when={"base_success": ("not-measured",)},
        outcome="measure-first",
        because="how often the base model succeeds decides between nothing, SFT and RL",
    ),
    Rule(
        when={"base_success": ("always",)},
        outcome="nothing-to-train",
        because="the base model already does it: training can only cost quality elsewhere",
    ),
    Rule(
        when={"images": ("yes",)},
        outcome="vision-language",
        because="runs here are of text alone: rewards, samples and the gate never see an image",
    ),
    Rule(when={"signal": ("none",)}, outcome="more-data", because="nothing says yet which answer is right"),
    Rule(
        when={"rows": (FEW,)},
        outcome="more-data",
        because=f"fewer than {FEW_ROWS} rows are learnt by heart, and too few are left to hold out",
    ),
    Rule(
        when={"signal": ("demonstrations",)},
        outcome="sft",
        because="good answers are there to imitate",
    ),
    Rule(
        when={"signal": ("checker",), "base_success": ("never",)},
        outcome="sft",
        because="the base model never succeeds: every completion of a group is paid the same, and RL learns nothing; "
        "write demonstrations or take those of a stronger model, then route again",
    ),
    Rule(
        when={"signal": ("thumbs", "rubric"), "base_success": ("never",)},
        outcome="sft",
        because="the base model never succeeds: preferences choose among what it already says; imitate good answers, "
        "then route again",
    ),
    Rule(
        when={"signal": ("checker",)},
        outcome="grpo",
        because="a program can check success and the base model sometimes succeeds: there is something to reinforce",
    ),
    Rule(
        when={"signal": ("rubric",)},
        outcome="dpo",
        because="a rubric alone is taste, and RL finds what its judge overlooks: DPO for taste, GRPO for reasoning; "
        "let the rubric choose between two answers, have a person read some choices, and train on these pairs",
    ),
    Rule(when={"signal": ("thumbs",)}, outcome="kto", because="answers are marked one by one, and KTO needs no pairs"),
    Rule(
        when={"signal": ("pairs",), "base_success": ("never",)},
        outcome="orpo",
        because="the base model never succeeds: ORPO imitates the better answer and prefers it in one stage",
    ),
    Rule(
        when={"signal": ("pairs",), "sft_checkpoint": ("no",)},
        outcome="orpo",
        because="there is no SFT checkpoint to start from: ORPO imitates and prefers in one stage",
    ),
    Rule(
        when={"signal": ("pairs",), "memory": ("tight",)},
        outcome="orpo",
        because="memory is short, and ORPO keeps no second copy of the model",
    ),
    Rule(
        when={"signal": ("pairs",), "length_bias": ("yes",), "sweep": ("yes",)},
        outcome="simpo",
        because="SimPO's reward is a mean over tokens, so that length alone does not pay; it has to be searched for, "
        "and there is a budget for that",
    ),
    Rule(
        when={"signal": ("pairs",)},
        outcome="dpo",
        because="two answers of one prompt are there, with a model that was tuned for it: DPO is the plain choice",
    ),
)


def _method(name: str, title: str, note: str) -> Outcome:
    command = f"finetune new RUN --method {name}"
    action = f"write the brief with {command}, then audit the data"
    return Outcome(name=name, kind="method", title=title, note=note, next_action=action, next_command=command)


def _off_ramp(name: str, title: str, note: str, action: str, command: str | None = None) -> Outcome:
    return Outcome(name=name, kind="off-ramp", title=title, note=note, next_action=action, next_command=command)


_LEAVES: tuple[Outcome, ...] = (
    _method("sft", "supervised fine-tuning", "it teaches form and manner quickly, and copies faults of its rows too"),
    _method("dpo", "direct preference optimization", "pairs from the model you train teach more than those of others"),
    _method("kto", "Kahneman-Tversky optimization", "it needs both kinds: answers marked good and answers marked bad"),
    _method("orpo", "odds ratio preference optimization", "one stage, no reference model"),
    _method("simpo", "simple preference optimization", "no reference model; learning rate and gamma decide over it"),
    _method("grpo", "group relative policy optimization", "no reward is trained on before its gate is open"),
    _off_ramp(
        "retrieval",
        "look it up when asked",
        "train later, if the model then reads what was found badly: that is a skill that stays",
        "put the facts into an index and the hits into the prompt; measure answers with and without",
    ),
    _off_ramp(
        "prompting",
        "say it in the prompt",
        "the rows on which the best prompt fails belong among the held-out rows of a later training",
        "write the rule and a few examples into the prompt; route again when it has stopped changing",
    ),
    _off_ramp(
        "continued-pretraining",
        "train on the raw text first",
        "guidance only: no verb here does it",
        f"look for a model that was trained on the field already; else read {OFF_RAMPS}",
    ),
    _off_ramp(
        "evaluation-first",
        "build the evaluation",
        "it needs held-out rows that nobody trains on, and a score",
        "write the brief, name held-out rows under `dataset.evaluation` and a reward, measure, then route again",
        "finetune new RUN",
    ),
    _off_ramp(
        "measure-first",
        "measure the base model",
        "with the best prompt, or training is paid for what a sentence does",
        "measure the base model on the held-out rows, then route again with what it shows",
        "finetune evaluate RUN",
    ),
    _off_ramp(
        "nothing-to-train",
        "use the model as it is",
        "harder held-out rows may show what it still lacks",
        "keep the evaluation as a guard for later models and prompts",
    ),
    _off_ramp(
        "vision-language",
        "reference only, never run here",
        "RL on the text part of such a model tends to teach it to ignore the image",
        f"read {OFF_RAMPS} before you choose another tool",
    ),
    _off_ramp(
        "more-data",
        "collect rows first",
        "rows from real use, read by a person, are worth more than many made ones",
        f"put the examples you have into the prompt, and collect at least {FEW_ROWS} rows of one kind",
    ),
)

OUTCOMES: Mapping[str, Outcome] = {leaf.name: leaf for leaf in _LEAVES}

_BY_KEY: Mapping[str, Question] = {question.key: question for question in QUESTIONS}


def route(answers: Answers) -> Route:
    """Return the one method or off-ramp that the answers lead to, or what is still to be asked.

    Every key must be that of a question and every value one that it takes.
    """
    rule, asked, read = _decide(answers)
    return Route(
        outcome=OUTCOMES[rule.outcome] if rule else None,
        reasons=[rule.because] if rule else [],
        changes=list(_changes(answers, read, rule.outcome)) if rule else [],
        open_questions=_open(answers) if asked else [],
        unused=[key for key in answers if key not in _may_matter(answers)],
    )


def _decide(answers: Answers) -> tuple[Rule | None, str | None, list[str]]:
    """Return the rule that decides, or the question that has to be answered first; and the answers that were read."""
    read: dict[str, None] = {}
    asked = None
    for rule in RULES:
        for key in _answered(rule, answers):
            read[key] = None
        if _is_refuted(rule, answers):
            continue
        asked = asked or _unanswered(rule, answers)
        if _unanswered(rule, answers) is None:  # it decides, unless an open question may still lead elsewhere
            is_decided = asked is None or _ends(answers) == {rule.outcome}
            return (rule, None, list(read)) if is_decided else (None, asked, list(read))
    return None, asked, list(read)


def _ends(answers: Answers) -> set[str]:
    """Return every outcome that some answers to the open questions lead to."""
    rule = next(rule for rule in RULES if not _is_refuted(rule, answers))  # a test goes through all answers
    asked = _unanswered(rule, answers)
    if asked is None:
        return {rule.outcome}
    return set().union(*(_ends({**answers, asked: value}) for value in _BY_KEY[asked].values))


def _answered(rule: Rule, answers: Answers) -> Iterator[str]:
    """Yield the answered questions of a rule, up to the one that refutes it."""
    for key, values in rule.when.items():
        if key in answers:
            yield key
            if answers[key] not in values:
                return


def _is_refuted(rule: Rule, answers: Answers) -> bool:
    return any(key in answers and answers[key] not in values for key, values in rule.when.items())


def _unanswered(rule: Rule, answers: Answers) -> str | None:
    return next((key for key in rule.when if key not in answers), None)


def _changes(answers: Answers, read: Sequence[str], outcome: str) -> Iterator[Change]:
    for key in read:
        for value in _BY_KEY[key].values:
            rule = _decide({**answers, key: value})[0]
            if rule is None or rule.outcome != outcome:
                yield Change(question=key, value=value, outcome=rule.outcome if rule else None)


def _open(answers: Answers) -> list[Question]:
    """Return the unanswered questions that may still matter: the one to ask now, then the others in their order."""
    now, may_matter = _decide(answers)[1], _may_matter(answers) - set(answers)
    return sorted(
        (question for question in QUESTIONS if question.key in may_matter),
        key=lambda question: question.key != now,
    )


def _may_matter(answers: Answers) -> set[str]:
    """Return the keys of all questions that some way on from these answers reads, answered or not."""
    _, asked, read = _decide(answers)
    if asked is None:
        return set(read)
    ways = (_may_matter({**answers, asked: value}) for value in _BY_KEY[asked].values)
    return {asked}.union(*ways)
