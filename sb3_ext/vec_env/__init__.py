"""Vectorised environments behind SB3's ``VecEnv`` that are faster than one Gymnasium environment after the other.

Each replaces a stock stack: the same spaces and infos, and an agent trained on one plays on the other. The first lines
of each module say what differs. Import from the modules.
"""
