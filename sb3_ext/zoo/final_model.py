"""Saves what RL Zoo saves at the end of a training. Killed while it does so, RL Zoo leaves half a model."""

from pathlib import Path

from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from sb3_ext.common.clean_text import say
from sb3_ext.runs.agents.checkpoint import save_model
from sb3_ext.runs.files import atomic_write

__all__ = ["save_final_model"]


def save_final_model(manager: ExperimentManager, model: BaseAlgorithm) -> None:
    """Under RL Zoo's names; each file is complete or as it was before."""
    folder = Path(manager.save_path)
    say(f"Saving to {folder}")
    save_model(model, folder / manager.env_name)
    if isinstance(model, OffPolicyAlgorithm) and manager.save_replay_buffer:
        say("Saving replay buffer")
        with atomic_write(folder / "replay_buffer.pkl") as unfinished:
            model.save_replay_buffer(unfinished)
    vec_normalize = model.get_vec_normalize_env()
    if manager.normalize and vec_normalize is not None:
        with atomic_write(Path(manager.params_path, "vecnormalize.pkl")) as unfinished:
            vec_normalize.save(str(unfinished))
