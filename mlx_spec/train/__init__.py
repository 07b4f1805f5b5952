"""Training of drafters on the machine they are for: text of the target's own, heads, the loop."""
