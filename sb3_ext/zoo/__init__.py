"""Integration with RL Zoo: its commands know this package's algorithms. Nothing else in the package imports RL Zoo.

``seams`` lists which patch is applied when.
"""

__all__ = ["register"]


def register() -> None:
    """
    Make RL Zoo know our algorithms, hyperparameter files, Optuna samplers and environment ids.

    The autoload hook does this when RL Zoo is imported. Call it where the hook is switched off
    (``SB3_EXT_AUTOLOAD=0``) or can't work (a zipped or vendored install). Calling it again changes nothing.
    """
    from sb3_ext.zoo import seams

    seams.apply_all()
