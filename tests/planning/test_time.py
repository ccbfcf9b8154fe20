"""How long decoding, training and a step take: hand-computed values, limits, and what must grow with what."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_cases import model

from llm_finetuning.planning import decode, time, training_time
from llm_finetuning.planning.decode import Drawn, Serving
from llm_finetuning.planning.hardware import CARDS
from llm_finetuning.planning.job import Adapter, Job
from llm_finetuning.planning.time import Round
from llm_finetuning.planning.time_rates import Rates, rates_of, unknown_words

DENSE, MIXTURE = model("Qwen3-8B"), model("gpt-oss-120b")
SMALL = model("Qwen2.5-0.5B")
RATES = Rates(name="even", bandwidth=1e12, arithmetic=1e14, graph_s=0.0, sequence_s=0.0)
LORA = Adapter(rank=16)
JOB = Job(weights="bfloat16", batch=4, prompt=128, completion=384)

batches = st.integers(1, 2048)
contexts = st.integers(1, 8192)
shapes = st.sampled_from([DENSE, MIXTURE, SMALL, model("Qwen3.5-27B"), model("Gemma-3-1B")])


def drawn(sequences: int = 32, mean: float = 200, longest: float = 400) -> Drawn:
    return Drawn(sequences=sequences, prompts=max(sequences // 8, 1), prompt=100, mean=mean, longest=longest)


def test_a_step_of_one_sequence_reads_the_weights_once() -> None:
    """Qwen3-8B in 16 bits: 36 layers of 192,950,784 weights and a head of 622,329,856, and 144 KiB of cache a token."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288
    norms = 36 * (2 * 4096 + 2 * 128) + 4096
    wanted = 2 * (36 * layer + norms + 151936 * 4096)
    found = decode.step(DENSE, RATES, Serving(), 1, 1000)
    assert found.weights == wanted
    assert found.cache == 1000 * 36 * 2 * 8 * 128 * 2
    assert found.seconds == pytest.approx((found.weights + found.cache) / 1e12)
    assert found.bound == "bandwidth"


def test_a_large_batch_is_bound_by_its_arithmetic() -> None:
    """A thousand sequences of a small context multiply for longer than the weights take to read."""
    found = decode.step(DENSE, RATES, Serving(), 1024, 16)
    assert found.bound == "arithmetic"
    assert found.seconds == pytest.approx(1024 * 2 * DENSE.active / 1e14)


def test_transformers_waits_for_its_launches() -> None:
    """Operation by operation, 24 layers take 24 x 0.6 ms however small they are; CUDA graphs spare that."""
    rates = replace(RATES, graph_s=50e-6)
    plain = decode.step(SMALL, rates, Serving(engine="transformers"), 1, 100)
    eager = decode.step(SMALL, rates, Serving(graphs=False), 1, 100)
    graphs = decode.step(SMALL, rates, Serving(), 1, 100)
    assert plain.seconds == pytest.approx(24 * 0.6e-3)
    assert plain.bound == eager.bound == "launches"
    assert eager.seconds == pytest.approx(plain.seconds)
    assert graphs.seconds < 0.25 * plain.seconds
    assert decode.launches(MIXTURE) == pytest.approx(1.5 * 36)


@pytest.mark.parametrize(("sequences", "share"), [(1, 4 / 128), (1e9, 1.0)], ids=["one", "many"])
def test_the_experts_that_a_batch_goes_through(sequences: float, share: float) -> None:
    """One sequence reads its own experts, very many read all, and a model without experts none."""
    assert decode.touched(128, 4, sequences) == pytest.approx(128 * share)
    assert decode.touched(0, 0, sequences) == 0


def test_neighbours_share_their_experts() -> None:
    """Eight sequences go through as many experts as 1 + 0.6 x 7 that had nothing in common."""
    assert decode.touched(128, 4, 8) == pytest.approx(128 * (1 - (1 - 4 / 128) ** 5.2))


def test_every_sequence_costs_the_engine_a_moment() -> None:
    """Beside what the device does: scheduling, sampling, text."""
    rates = replace(RATES, sequence_s=1e-3)
    free, busy = (decode.step(DENSE, each, Serving(), 50, 100).seconds for each in (RATES, rates))
    assert busy == pytest.approx(free + 0.05)


def test_prompts_are_products_and_attention() -> None:
    """Two operations a weight and token without the head, 4 x heads x width x half of the length; windows see less."""
    body = 2 * (DENSE.active - DENSE.head) + 36 * 4 * 32 * 128 * 1000 / 2
    found = decode.prefill(DENSE, RATES, Serving(), 4000, 1000)
    assert found == pytest.approx(4000 * body / 1e14)
    assert decode.prefill(DENSE, RATES, Serving(), 1, 1) == pytest.approx(2 * DENSE.active / 1e12, rel=0.01)
    assert decode.prefill(DENSE, RATES, Serving(), 0, 0) == 0
    windowed = model("Gemma-3-1B")
    assert decode.attention_flops(windowed, 8000) < 0.3 * 8 * decode.attention_flops(windowed, 2000)


@settings(deadline=None)  # the machine may be busy
@given(shape=shapes, batch=batches, more=batches, context=contexts, further=contexts)
def test_a_step_grows_with_its_batch_and_its_context(shape, batch, more, context, further) -> None:
    """Neither may shorten a step; and a larger batch never draws fewer tokens a second."""
    rates = replace(RATES, graph_s=50e-6, sequence_s=30e-6)
    here = decode.step(shape, rates, Serving(), batch, context)
    larger = decode.step(shape, rates, Serving(), batch + more, context)
    later = decode.step(shape, rates, Serving(), batch, context + further)
    assert here.seconds <= larger.seconds * (1 + 1e-9)
    assert here.seconds <= later.seconds * (1 + 1e-9)
    assert batch / here.seconds <= (batch + more) / larger.seconds * (1 + 1e-9)


@settings(deadline=None)  # the machine may be busy
@given(shape=shapes, batch=batches, factor=st.floats(1.0, 10.0))
def test_faster_hardware_is_never_slower(shape, batch, factor) -> None:
    """More bandwidth or arithmetic shortens rollouts and training, or leaves them as they are."""
    job = replace(JOB, batch=max(batch % 16, 1))
    base = decode.rollout(shape, RATES, Serving(), drawn(batch)).seconds
    trained = training_time.passes(shape, job, RATES).training
    for name in ("bandwidth", "arithmetic"):
        faster = replace(RATES, **{name: getattr(RATES, name) * factor})
        assert decode.rollout(shape, faster, Serving(), drawn(batch)).seconds <= base * (1 + 1e-9)
        assert training_time.passes(shape, job, faster).training <= trained * (1 + 1e-9)


def test_the_longest_completion_decides() -> None:
    """Where all are alike a rollout is so many steps of the whole batch; a tail costs, but less than it is long."""
    even = decode.rollout(DENSE, RATES, Serving(), drawn(mean=200, longest=200))
    step = decode.step(DENSE, RATES, Serving(), 32, 100 + 100)
    assert even.decode == pytest.approx(200 * step.seconds, rel=1e-3)
    tail = decode.rollout(DENSE, RATES, Serving(), drawn(mean=200, longest=800))
    assert 3 * even.decode < tail.decode < 4 * even.decode
    heavy = replace(RATES, arithmetic=1e12)  # where the batch's arithmetic decides, the sum of tokens does
    even, tail = (decode.rollout(DENSE, heavy, Serving(), drawn(longest=longest)).decode for longest in (200, 800))
    assert tail < 2 * even


def test_transformers_keeps_finished_sequences_to_the_end() -> None:
    """Its batch does not shrink, and every completion's prompt is computed for itself."""
    heavy = replace(RATES, arithmetic=1e12, launch_s=0.0)
    vllm = decode.rollout(DENSE, heavy, Serving(), drawn(longest=800))
    plain = decode.rollout(DENSE, heavy, Serving(engine="transformers", shares_prompts=False), drawn(longest=800))
    assert plain.decode > 3 * vllm.decode
    assert plain.prefill == pytest.approx(8 * vllm.prefill)


def test_sequences_that_the_cache_does_not_hold_wait() -> None:
    """With room for a quarter of them the weights are read about four times as often."""
    free = decode.rollout(DENSE, RATES, Serving(), drawn(longest=200)).decode
    tight = decode.rollout(DENSE, RATES, Serving(sequences=8), drawn(longest=200)).decode
    assert tight == pytest.approx(4 * free, rel=0.1)
    assert decode.rollout(DENSE, RATES, Serving(sequences=999), drawn(longest=200)).decode == free


@pytest.mark.parametrize(
    ("mean", "n", "cap", "longest"), [(100, 1, None, 100), (100, 8, None, 181.6), (100, 8, 150, 150)]
)
def test_the_longest_of_completions_whose_mean_is_known(mean, n, cap, longest) -> None:
    """The mean and 0.4 of it times sqrt(2 ln n), below the cap and never below the mean."""
    assert decode.longest_of(mean, n, cap) == pytest.approx(longest, rel=1e-3)
    assert decode.longest_of(400, n, 300) == 400


def test_two_devices_share_the_reading_and_talk() -> None:
    """Half the bytes each, and two all-reduces a layer."""
    one = decode.step(DENSE, RATES, Serving(), 1, 1)
    two = decode.step(DENSE, RATES, Serving(tensor_parallel=2, link_s=10e-6), 1, 1)
    assert two.seconds == pytest.approx(one.seconds / 2 + 2 * 36 * 10e-6)


def test_full_training_is_six_operations_a_weight_and_token() -> None:
    """Four of a frozen model, and two more either way where activations are computed again."""
    operations = replace(RATES, bandwidth=1e30, arithmetic=1.0, launch_s=0.0)
    job = replace(JOB, prompt=0, completion=512, checkpointing=False)
    full = training_time.passes(DENSE, job, operations)
    tokens = job.tokens
    attention = tokens * decode.attention_flops(DENSE, 512) * 2  # a masked batch skips nothing
    assert full.scoring == pytest.approx(2 * DENSE.active * tokens + attention)
    assert full.training == pytest.approx(3 * full.scoring)
    again = training_time.passes(DENSE, replace(job, checkpointing=True), operations)
    head = 2 * DENSE.head * tokens
    assert again.training == pytest.approx(4 * full.scoring - head)
    adapted = training_time.passes(DENSE, replace(job, tuning="lora", adapter=LORA), operations)
    assert 2 * full.scoring < adapted.training < 2.1 * full.scoring


def test_training_moves_memory_and_is_launched() -> None:
    """4-bit maps and fp32 weights under autocast move more than 16-bit ones; a few tokens wait for the host."""
    free = replace(RATES, arithmetic=1e30, launch_s=0.0)
    lora = replace(JOB, tuning="lora", adapter=LORA)
    seconds = [
        training_time.passes(DENSE, job, free).training
        for job in (lora, replace(lora, tuning="qlora"), replace(lora, weights="float32"))
    ]
    assert seconds[0] < seconds[1] < seconds[2]
    tiny = replace(JOB, batch=1, prompt=4, completion=4, checkpointing=False)
    assert training_time.passes(SMALL, tiny, RATES).training == pytest.approx(24 * 3 * 0.6e-3)
    adapted = replace(tiny, tuning="lora", adapter=LORA)
    assert training_time.passes(SMALL, adapted, RATES).training == pytest.approx(24 * 2 * 3 * 0.6e-3)


def test_shards_are_gathered_for_every_pass() -> None:
    """Forward, recomputed and backward: 16-bit weights three times over the link; fused kernels are launched half."""
    whole = training_time.passes(DENSE, JOB, RATES)
    shared = training_time.passes(DENSE, replace(JOB, sharding="fsdp2", shards=4), RATES)
    assert shared.training == pytest.approx(whole.training + 3 * 2 * DENSE.total / RATES.link_bytes_s)
    tiny = replace(JOB, batch=1, prompt=4, completion=4)
    fused = training_time.passes(SMALL, replace(tiny, fused_kernels=True), RATES)
    assert fused.host == pytest.approx(training_time.passes(SMALL, tiny, RATES).host / 2)


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [("adamw_torch_fused", 8 * 4.0), ("adamw_torch", (7 * 2.5 + 1) * 4.0), ("adamw_bnb_8bit", 5 * 4.0)],
)
def test_an_optimizer_step_moves_its_states(optimizer: str, bytes_each: float) -> None:
    """AdamW moves a weight, its gradient and two moments seven times and the gradient's norm once more, in fp32."""
    job = Job(weights="float32", optimizer=optimizer)
    assert training_time.optimizer_step(SMALL, job, RATES) == pytest.approx(SMALL.total * bytes_each / 1e12)
    shared = replace(job, sharding="fsdp2", shards=4)
    assert training_time.optimizer_step(SMALL, shared, RATES) == pytest.approx(SMALL.total * bytes_each / 4e12)


TURN = Round(
    serving=Serving(),
    completions=32,
    prompts=4,
    prompt=128,
    mean=200,
    longest=384,
    scorings=1,
    reward_s=0.01,
    sync="colocate",
)


def test_a_step_is_the_sum_of_its_phases() -> None:
    """Each has its interval and its formula; rewards are counted a completion, and the run adds its start."""
    found = time.estimate(DENSE, replace(JOB, accumulation=8), RATES, TURN)
    names = [stage.name for stage in found.stages]
    assert names == [
        "rollout",
        "reward",
        "log-probabilities",
        "training",
        "optimizer step",
        "weight sync",
        "trainer",
    ]
    for stage in found.stages:
        assert stage.low < stage.seconds < stage.high
        assert stage.formula
        assert "{" not in stage.formula
    step, low, high = found.step
    assert step == pytest.approx(sum(stage.seconds for stage in found.stages))
    assert low < step < high
    assert found.seconds("reward") == pytest.approx(0.32)
    assert found.seconds("training") == pytest.approx(8 * found.passes.training)
    assert found.seconds("log-probabilities") == pytest.approx(8 * found.passes.scoring)
    assert found.run(100)[0] == pytest.approx(found.start + 100 * step)


def test_rewards_that_nobody_measured_are_in_no_sum() -> None:
    """The phase is named as unknown instead of being counted as nothing."""
    found = time.estimate(DENSE, JOB, RATES, replace(TURN, reward_s=None))
    assert found.unknown == ("reward",)
    assert found.seconds("reward") == 0
    assert time.estimate(DENSE, JOB, RATES, TURN).unknown == ()


def test_a_generation_that_feeds_several_steps_is_shared_by_them() -> None:
    """Rollout, reward, scoring and hand-over happen once; training is every step's own."""
    once, shared = (time.estimate(DENSE, JOB, RATES, replace(TURN, steps=steps)) for steps in (1.0, 4.0))
    for name in ("rollout", "reward", "log-probabilities", "weight sync"):
        assert shared.seconds(name) == pytest.approx(once.seconds(name) / 4)
    assert shared.seconds("training") == once.seconds("training")


def test_processes_share_what_was_drawn() -> None:
    """Four processes pay for a quarter of the rewards and the scoring each, four engines draw a quarter each."""
    one = time.estimate(DENSE, JOB, RATES, TURN)
    four = time.estimate(DENSE, JOB, RATES, replace(TURN, processes=4, engines=4))
    assert four.seconds("reward") == pytest.approx(one.seconds("reward") / 4)
    assert four.seconds("log-probabilities") == pytest.approx(one.seconds("log-probabilities") / 4)
    assert four.rollout is not None
    assert one.rollout is not None
    assert 3.9 * four.rollout.first.cache < one.rollout.first.cache < 4.1 * four.rollout.first.cache


@pytest.mark.parametrize(
    ("change", "rates", "words"),
    [
        ({}, {"arithmetic": 1e16}, "rollout: bound by memory bandwidth"),
        (
            {"completions": 2048, "longest": 210, "prompt": 1, "scorings": 0},
            {"arithmetic": 1e13},
            "rollout: bound by arithmetic",
        ),
        ({"prompt": 9000, "mean": 1, "longest": 1, "prompts": 32}, {}, "rollout: reading the prompts"),
        ({}, {"bandwidth": 1e14, "arithmetic": 1e16, "graph_s": 1e-3}, "rollout: bound by launches, not by the card"),
        ({"reward_s": 50.0}, {}, "reward"),
        ({"mean": 2, "longest": 2}, {"arithmetic": 1e13}, "training: bound by arithmetic"),
        ({"mean": 2, "longest": 2}, {"bandwidth": 1e10, "arithmetic": 1e16}, "training: bound by memory bandwidth"),
        ({"offload_s": 900.0}, {}, "weight sync"),
        ({"mean": 1, "longest": 1, "trainer_s": 90.0}, {}, "trainer: its own work, not the card's"),
    ],
    ids=["bandwidth", "arithmetic", "prompts", "launches", "reward", "training", "training memory", "sync", "trainer"],
)
def test_the_bottleneck_is_named(change, rates, words) -> None:
    """The longest phase, and of rollout and training what bounds them."""
    job = replace(JOB, accumulation=8)
    assert time.estimate(DENSE, job, replace(RATES, **rates), replace(TURN, **change)).bottleneck == words


def test_sleep_and_servers_cost_at_the_hand_over() -> None:
    """Sleeping adds its seconds, a server the way there, an adapter its merge."""
    awake = time.estimate(DENSE, JOB, RATES, TURN).seconds("weight sync")
    asleep = time.estimate(DENSE, JOB, RATES, replace(TURN, sleeps=True)).seconds("weight sync")
    served = time.estimate(DENSE, JOB, RATES, replace(TURN, sync="server")).seconds("weight sync")
    merged = time.estimate(DENSE, replace(JOB, tuning="lora", adapter=LORA), RATES, TURN).seconds("weight sync")
    assert asleep == pytest.approx(awake + 1.5)
    assert served == pytest.approx(awake + 2 * DENSE.total / RATES.link_bytes_s)
    assert merged == pytest.approx(awake + 2 * DENSE.total / 1e12)


def test_a_method_without_rollouts_trains_alone() -> None:
    """Supervised steps have no reward to be unknown and nothing to hand over."""
    found = time.estimate(DENSE, JOB, RATES, Round(trainer_s=0.05))
    assert [stage.name for stage in found.stages] == ["training", "optimizer step", "trainer"]
    assert found.unknown == ()


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.name)
def test_every_card_of_the_table_has_rates(card) -> None:
    """Shares of the datasheet's figures, less of those of old cards; float16 counts where there is no bfloat16."""
    rates = rates_of(card)
    assert rates is not None
    peak = card.bf16_tflops or card.fp16_tflops
    assert rates.arithmetic == pytest.approx(peak * 1e12 * (0.35 if card.name in ("t4", "v100", "v100-32") else 0.65))
    assert rates.bandwidth == pytest.approx(card.bandwidth_gb_s * 1e9 * (0.8 if card.unified else 0.6))
    assert card.source in rates.source
    old, joined = card.name in ("t4", "v100", "v100-32"), card.name.startswith(("v100", "a100", "h", "b200"))
    assert rates.launch_s == pytest.approx(1.2e-3 if old else 0.6e-3)
    assert rates.link_bytes_s == (150e9 if joined else 15e9)
    assert (rates.link_s < 20e-6) is joined
    assert rates.error == 2.0
    assert replace(rates, calibrated=True).error < 2.0


def test_a_card_without_figures_has_no_rates() -> None:
    """Nothing is guessed of a bandwidth or a rate that no source says."""
    card = CARDS["h100"]
    assert rates_of(replace(card, bandwidth_gb_s=None)) is None
    assert rates_of(replace(card, bf16_tflops=None)) is None
    assert unknown_words("h100") == "bandwidth and 16-bit rate of a h100 are not both known here"
