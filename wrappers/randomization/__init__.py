"""Domain randomisation: distributions, and the parameters of known environments."""
