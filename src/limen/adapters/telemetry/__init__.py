"""Where observations go."""
