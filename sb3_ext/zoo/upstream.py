"""Facts about RL Zoo for code that can't wait for its imports. Tests compare them with the installed release."""

import importlib.util
from pathlib import Path

__all__ = [
    "ENV_PACKAGES",
    "FILES_WITHOUT_ALGORITHM",
    "GENERAL_SECTIONS",
    "SCHEDULES",
    "SECTION_KEYS",
    "hyperparams_folder",
    "import_environments",
]

#: Packages that register environments; RL Zoo's commands import those that are installed
ENV_PACKAGES = (
    *("custom_envs", "gym_donkeycar", "highway_env", "minigrid", "panda_gym", "pybullet_envs_gymnasium"),
    "rocket_lander_gym",
)
#: Keys of a section besides the algorithm's parameters; ``ext`` is ours
SECTION_KEYS = (
    *("callback", "env_kwargs", "env_wrapper", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "normalize"),
    *("vec_env_wrapper", "ext"),
)
#: Parameters for which RL Zoo reads ``lin_0.001``
SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
#: Sections of a hyperparameter file that name no environment
GENERAL_SECTIONS = ("default", "atari")
#: HER was an algorithm once
FILES_WITHOUT_ALGORITHM = ("her",)


def hyperparams_folder() -> Path:
    """The folder with RL Zoo's hyperparameter files."""
    package = importlib.util.find_spec("rl_zoo3")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / "hyperparams"


def import_environments() -> None:
    """Register the environments of RL Zoo itself and of :data:`ENV_PACKAGES`. This takes seconds."""
    import rl_zoo3.import_envs  # noqa: F401
