"""Whether a run fits its machine: from its brief, its model's config.json and the machine to what `planning` computes.

| module | what it does |
|---|---|
| `model_config` | finds the config.json of a folder or of a hub id that lies in the hub's cache |
| `devices` | what memory one device of the machine has for the run |
| `run_job` | a run's config as `planning`'s job |
| `forecast` | the memory of a run, with the verdict and the share that vLLM needs |
| `situation` | all that a forecast needs beside the brief, or `Unknown` with what is missing |
| `remedies` | the smallest changes of the brief with which a run fits |
"""
