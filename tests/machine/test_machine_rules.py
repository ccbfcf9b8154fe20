"""The two rules that decide alone: which machine code runs on a GPU, and which version lies within bounds."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from llm_finetuning.commands import preflight
from llm_finetuning.machine import checks, gpu_checks, versions

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((12, 1), ("sm_120",), True),  # machine code runs on later minor capabilities
        ((12, 0), ("sm_121",), False),
        ((12, 1), ("sm_100",), False),
        ((12, 1), ("compute_90",), True),  # PTX runs on all later ones
        ((9, 0), ("compute_90",), True),
        ((7, 0), ("sm_75", "sm_80", "compute_75"), False),
        ((7, 5), ("sm_75",), True),
        ((8, 9), ("sm_80", "sm_90"), True),
        ((8, 6), ("sm_89",), False),
        ((9, 0), ("sm_90a",), True),
        ((12, 1), ("sm_120a",), False),  # the suffix `a` is for one capability alone
        ((12, 1), ("sm_120f",), True),  # and `f` for a family
        ((10, 0), ("sm_120f",), False),
        ((9, 0), ("compute_80a",), False),
        ((9, 0), ("gfx90a",), False),
        ((9, 0), (), False),
    ],
)
def test_which_code_runs(capability: tuple[int, int], architectures: tuple[str, ...], runs: bool) -> None:
    """NVIDIA's rules of compatibility, on both sides of each."""
    assert gpu_checks.supports(capability, architectures) == runs


RELEASES = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.tuples(st.sampled_from(["==", "!=", ">=", "<=", ">", "<"]), RELEASES).map("".join)


@given(RELEASES, st.lists(CLAUSES, min_size=1, max_size=3).map(",".join))
def test_bounds_are_those_of_packaging(version: str, bounds: str) -> None:
    """On plain releases the answer is that of the reference implementation."""
    assert versions.meets(version, bounds) == SpecifierSet(bounds).contains(Version(version))


@given(RELEASES, RELEASES.filter(lambda text: "." in text), st.sampled_from(["~={}", "=={}.*", "!={}.*"]))
def test_compatible_releases_and_prefixes(version: str, bound: str, form: str) -> None:
    """Likewise for the two forms that look at the first numbers alone."""
    bounds = form.format(bound)
    assert versions.meets(version, bounds) == SpecifierSet(bounds).contains(Version(version))


@pytest.mark.parametrize(
    ("requirement", "parts"),
    [
        ("torch==2.13.0", ("torch", "==2.13.0")),
        ("huggingface_hub >=1.31.0", ("huggingface-hub", ">=1.31.0")),
        ("transformers[kernels] (>=5,<6)", ("transformers", ">=5,<6")),
        ("numpy", ("numpy", "")),
        ("???", ("", "")),
    ],
)
def test_a_requirement_is_name_and_bounds(requirement: str, parts: tuple[str, str]) -> None:
    """As wheels write them."""
    assert versions.split(requirement) == parts
    assert versions.meets("1.0", "")


def test_a_local_part_does_not_count() -> None:
    """`+cu130` says how it was built, not which release it is."""
    assert versions.meets("2.13.0+cu130", "==2.13.0")
    assert not versions.meets("2.13.1+cu130", "==2.13.0")


def test_every_check_is_explained() -> None:
    """The reference names the checks that are made, each with what it asserts, in the order of the report."""
    text = (ROOT / "skills/grpo-rlvr-training/references/preflight.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", text.partition("| check |")[2], re.MULTILINE))
    first = {name: (look.__doc__ or "").partition("\n")[0].strip() for name, look in checks.CHECKS.items()}
    assert list(rows) == [*first, *preflight.TRIALS]
    assert {name: rows[name] for name in first} == first
