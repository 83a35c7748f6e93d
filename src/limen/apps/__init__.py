"""Composition roots: the only place that reads the environment and builds the concrete parts."""
