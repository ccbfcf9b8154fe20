"""From a config to a folder that another machine can run."""
