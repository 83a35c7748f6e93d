"""Is this store fit for buckets? What a server says about itself, judged, with what to do about it."""
