"""What a run needs of memory and time, from its model's config.json and its settings; pure, without torch or weights.

| module | what it says |
|---|---|
| `architecture` | a config.json as layers, linear maps and parameter counts |
| `job` | the settings that memory depends on |
| `states` | weights, adapter, gradients, optimizer states, a reference |
| `activations` | what the backward pass keeps, layer by layer |
| `head` | the loss head, by the path that computes it |
| `rollout` | vLLM's pool, its residue asleep, the cache of transformers' `generate` |
| `memory` | all of it by part and by phase, with the peak and its interval |
| `time_rates` | what a card reaches of its bandwidth and its arithmetic |
| `decode` | how long completions take to be drawn |
| `training_time` | how long passes and the optimizer's step take |
| `time` | a step and a run, by phase, with their intervals and what holds them up |
"""
