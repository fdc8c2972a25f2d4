"""Environment wrappers: reward shaping, domain randomisation, noise, curricula.

One file a topic; each is usable from a YAML ``env_wrapper:`` line.
"""
