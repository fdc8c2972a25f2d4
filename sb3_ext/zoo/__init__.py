"""The seam with RL Zoo: what it must be told so that its own commands know this package.

One file a seam: ``registry`` (algorithms), ``samplers`` (Optuna), ``experiment`` (hyperparameter files, errors),
``normalization`` (statistics of best models and checkpoints), ``played_envs`` (what ``enjoy`` plays), ``hub`` (Hugging
Face), ``commands`` and ``ffmpeg`` (what its commands lack), and ``seams``, which says when each is applied. Nothing
else in the package imports RL Zoo.
"""

__all__ = ["register"]


def register() -> None:
    """
    Make RL Zoo know our algorithms, hyperparameter files, Optuna samplers and environment ids.

    The autoload hook does this by itself when RL Zoo is imported; call it where the hook is switched off
    (``SB3_EXT_AUTOLOAD=0``) or can't work (a zipped or vendored install). Calling it again changes nothing.
    """
    from sb3_ext.zoo import seams

    seams.apply_all()
