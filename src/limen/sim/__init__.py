"""Traffic of the past, decided again: by the same code, under a clock that stands where the traffic was."""
