"""Rules that can be changed while everything runs: their database, its HTTP API, and who watches it."""
