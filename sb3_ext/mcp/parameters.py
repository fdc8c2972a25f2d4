"""Parameters of tools, with the descriptions that a language model reads."""

from typing import Annotated, Any

from pydantic import Field

__all__ = ["DEFAULT_ALGO", "Algo", "EnvId", "Hyperparams", "RunName", "RunOrModel", "Seed", "Steps"]

DEFAULT_ALGO = "ppo_ext"
RunName = Annotated[
    str,
    Field(
        description="A run of the log folder: its name as in list_runs (`ppo_ext/CartPole-v1_3`), its id, `@last` (the "
        "newest), `@last:ENV`, or `@best:ENV` (the highest score)"
    ),
]
RunOrModel = Annotated[
    str,
    Field(
        description="A run, as in list_runs, `@last` or `@best:ENV`; with `@best`, `@final` or a number of timesteps "
        "at its end, another model of it: `ppo_ext/CartPole-v1_3@20000`. By default its best model"
    ),
]
EnvId = Annotated[str, Field(description="Id of an environment, such as `CartPole-v1`: see list_envs")]
Algo = Annotated[
    str, Field(description="`ppo_ext`, `a2c_ext`, `reinforce`, or a stock algorithm such as `ppo`, `dqn`, `sac`")
]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1, description="Seed; the same seed plays the same episode")]
Steps = Annotated[
    int | None, Field(ge=1, le=10**12, description="Timesteps to train in all; default: as the config says")
]
Hyperparams = Annotated[
    dict[str, Any],
    Field(
        description="Changes to the tuned hyperparameters, such as {'learning_rate': 0.001, 'n_envs': 4, "
        "'policy_kwargs': {'net_arch': [64, 64]}, 'ext': {'evaluation': {'every': 5000, 'episodes': 10}}}. Only "
        "numbers, booleans, single words, and lists and mappings of them; no code, paths or imports"
    ),
]
