"""Pure values and arithmetic: no clock, no I/O, no randomness. Time arrives as integer microseconds."""
