"""Vectorised environments that are faster than one Gymnasium environment after the other, behind SB3's ``VecEnv``.

Each is a drop-in for the stock stack that it names: the same spaces, the same infos, and an agent trained on one plays
on the other. What differs from the stock stack is said in the module's first lines. Import from the modules.
"""
