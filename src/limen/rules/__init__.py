"""What a request is, which limits apply to it, and under which key. Pure: no I/O, no clock."""
