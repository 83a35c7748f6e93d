"""Benchmarks: Limen beside its peers and beside what cannot be undercut, in one run. Not part of the package."""
