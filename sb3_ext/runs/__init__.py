"""Run folders: registry, checkpoints, resume."""
