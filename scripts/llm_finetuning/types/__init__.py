"""Every record that crosses a stage: frozen, without behaviour.

Records are plain dataclasses; `artifact` checks them with pydantic where they enter from a file.
"""

from llm_finetuning.types.evaluation import (
    Arena,
    Comparison,
    Evaluation,
    EvaluationItem,
    Leak,
    PartShift,
    Promotion,
    PromotionVerdict,
    Shift,
    Suite,
)
from llm_finetuning.types.findings import Estimate, Finding, Rate
from llm_finetuning.types.gate import AuditReport, Disagreement, GateReport, GateVerdict, Override
from llm_finetuning.types.judging import JudgeEvent, JudgeOpening, JudgeOutcome, JudgeSplit, JudgeVerdict, Side
from llm_finetuning.types.probes import HonestWork, Probe, ProbeKind, ProbeReport, ProbeResult, ProbeVerdict
from llm_finetuning.types.runs import Build, Check, EnvReport, Plan
from llm_finetuning.types.samples import (
    NOT_HANDED_ON,
    Component,
    FinishReason,
    Label,
    Part,
    Pass,
    Reader,
    Reading,
    RewardValue,
    Row,
    Sample,
    Score,
    Text,
    Verdict,
)

__all__ = [
    "NOT_HANDED_ON",
    "Arena",
    "AuditReport",
    "Build",
    "Check",
    "Comparison",
    "Component",
    "Disagreement",
    "EnvReport",
    "Estimate",
    "Evaluation",
    "EvaluationItem",
    "Finding",
    "FinishReason",
    "GateReport",
    "GateVerdict",
    "HonestWork",
    "JudgeEvent",
    "JudgeOpening",
    "JudgeOutcome",
    "JudgeSplit",
    "JudgeVerdict",
    "Label",
    "Leak",
    "Override",
    "Part",
    "PartShift",
    "Pass",
    "Plan",
    "Probe",
    "ProbeKind",
    "ProbeReport",
    "ProbeResult",
    "ProbeVerdict",
    "Promotion",
    "PromotionVerdict",
    "Rate",
    "Reader",
    "Reading",
    "RewardValue",
    "Row",
    "Sample",
    "Score",
    "Shift",
    "Side",
    "Suite",
    "Text",
    "Verdict",
]
