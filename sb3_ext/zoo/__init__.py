"""The seam with RL Zoo: makes its own commands know this package. Nothing else in the package imports RL Zoo.

``seams`` says which patch is applied when; each patch is a function that names the upstream problem it answers.
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
