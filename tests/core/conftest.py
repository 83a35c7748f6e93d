"""Properties are judged by their outcome, not by how long a busy machine takes for one example."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
