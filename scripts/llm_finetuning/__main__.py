"""`python -m llm_finetuning`, for an environment that has the package on its path."""

from llm_finetuning.cli import main

raise SystemExit(main())
