"""Where buckets live between requests."""
