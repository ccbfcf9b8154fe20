"""What composed rewards pay for samples, as the trainer computes it, and from which reward on that is a success."""
