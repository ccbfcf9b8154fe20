"""What the skill's reference on variants says is what rules and recipes say now."""

import variants_reference

from llm_finetuning.recipes import variants


def test_the_page_is_the_rules() -> None:
    """Rules or recipes that changed have written the page anew: python tests/references/variants_reference.py."""
    assert variants_reference.PAGE.read_text("utf-8") == variants_reference.page()


def test_each_variant_is_somebody_s_answer() -> None:
    """And each that needs it has its advice with what makes it act, and one that says it acts already."""
    faults = {**variants_reference.FAULTS, **variants_reference.OTHERS}
    advised = [variants_reference.answer(fault).advice for fault in faults.values()]
    assert {advice.variant for advice in advised} - {None} == set(variants.VARIANTS)
    for use in (name for name, variant in variants.VARIANTS.items() if variant.off_policy > 1):
        carries = [advice.carries for advice in advised if advice.variant == use]
        assert any("makes the run off-policy" in words for words in carries)
        assert any("off-policy already" in words for words in carries)
