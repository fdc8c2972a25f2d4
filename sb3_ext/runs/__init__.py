"""A training as a ``Run``, its folder, and what can be done with both: report, play, evaluate."""
