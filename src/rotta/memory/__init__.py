"""Memory banks: which of the past samples to learn from."""
