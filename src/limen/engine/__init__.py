"""One request, from its attributes to a decision: plan, ask the store once, conclude."""
