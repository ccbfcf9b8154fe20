"""Whether a run fits its machine, and how long it takes: from brief, config.json and machine to `planning`.

| module | what it does |
|---|---|
| `model_config` | finds the config.json of a folder or of a hub id that lies in the hub's cache |
| `devices` | what memory one device of the machine has for the run |
| `run_job` | a run's config as `planning`'s job |
| `forecast` | the memory of a run, with the verdict and the share that vLLM needs |
| `situation` | all that a forecast needs beside the brief, or `Unknown` with what is missing |
| `observed` | lengths and reward seconds that audit, samples and scores have shown |
| `duration` | the time of a step and of the run, by phase |
| `calibrated` | what a device reaches, from seconds that were measured on it |
| `remedies` | the smallest changes of the brief with which a run fits |
"""
