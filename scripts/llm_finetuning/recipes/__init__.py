"""From a brief and a machine to every option of the run, one file a method; pure, without torch."""
