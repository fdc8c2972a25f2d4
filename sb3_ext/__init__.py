"""The missing pieces of Stable-Baselines3 and RL Zoo, as a plugin.

Public names are imported on first use: this module is loaded at every interpreter start by the autoload hook, so it
must stay free of imports.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # what typing.TYPE_CHECKING is, without the import
if TYPE_CHECKING:
    from sb3_ext.a2c_ext import A2CExt
    from sb3_ext.ppo_ext import MaskablePPOExt, PPOExt, RecurrentPPOExt
    from sb3_ext.reinforce import REINFORCE
    from sb3_ext.runs.agents.transfer import init_from
    from sb3_ext.runs.resume import resume_model
    from sb3_ext.zoo import register

__all__ = [
    "REINFORCE",
    "A2CExt",
    "MaskablePPOExt",
    "PPOExt",
    "RecurrentPPOExt",
    "__version__",
    "init_from",
    "register",
    "resume_model",
]

_HOME = {
    "A2CExt": "sb3_ext.a2c_ext",
    "MaskablePPOExt": "sb3_ext.ppo_ext",
    "PPOExt": "sb3_ext.ppo_ext",
    "REINFORCE": "sb3_ext.reinforce",
    "RecurrentPPOExt": "sb3_ext.ppo_ext",
    "init_from": "sb3_ext.runs.agents.transfer",
    "register": "sb3_ext.zoo",
    "resume_model": "sb3_ext.runs.resume",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
