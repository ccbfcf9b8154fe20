"""What watches over a run; importing it sets what has to stand in the environment before torch is loaded."""

import os

os.environ.setdefault(
    "TOKENIZERS_PARALLELISM", "false"
)  # a reward may fork, and the tokenizer's threads do not survive
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads sleep instead of spinning against the busy ones
os.environ.setdefault("GOMP_SPINCOUNT", "0")  # the same for GNU's OpenMP, which torch for the CPU brings
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # ORPO and SimPO live in trl.experimental; that is known
