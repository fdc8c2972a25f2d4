"""Policies whose parts can all be named in YAML, under ``policy_kwargs``."""

import inspect
from functools import partial
from typing import Any

import torch as th
from sb3_contrib.common.maskable.policies import (
    MaskableActorCriticCnnPolicy,
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from sb3_contrib.common.recurrent.policies import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    MlpExtractor,
    NatureCNN,
)
from torch import nn

from sb3_ext.common.arguments import read_flag, read_number
from sb3_ext.common.extractors import DiscreteEmbedding, ImpalaCNN, NormalizedMlp, SmallCNN
from sb3_ext.common.import_path import import_class
from sb3_ext.common.names import check_keywords, nearest

__all__ = ["LSTM_POLICIES", "MASKABLE_POLICIES", "POLICIES", "PolicyOptions", "resolve_policy_kwargs"]

_ACTIVATIONS = {"leaky_relu": nn.LeakyReLU} | {
    cls.__name__.lower(): cls for cls in (nn.ELU, nn.GELU, nn.Mish, nn.ReLU, nn.SELU, nn.SiLU, nn.Tanh)
}
_EXTRACTORS = (CombinedExtractor, DiscreteEmbedding, FlattenExtractor, ImpalaCNN, NatureCNN, NormalizedMlp, SmallCNN)
_OPTIMIZERS = (th.optim.Adam, th.optim.AdamW, th.optim.RMSprop, th.optim.SGD)
#: The classes with a name, and the base class of all others
_BY_NAME: dict[str, tuple[dict[str, Any], type]] = {
    "activation_fn": (_ACTIVATIONS, nn.Module),
    "features_extractor_class": ({cls.__name__: cls for cls in _EXTRACTORS}, BaseFeaturesExtractor),
    "optimizer_class": ({cls.__name__: cls for cls in _OPTIMIZERS}, th.optim.Optimizer),
}


def resolve_policy_kwargs(policy_class: type[BasePolicy], policy_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Replace names and import paths by classes, and check that the policy and its extractor have these parameters."""
    _check_parameters("policy_kwargs", policy_class, policy_kwargs)
    resolved = {key: _resolve(key, value) if key in _BY_NAME else value for key, value in policy_kwargs.items()}
    if "net_arch" in resolved:
        _check_net_arch(resolved["net_arch"])
    if "features_extractor_class" in resolved:
        raw = resolved.get("features_extractor_kwargs") or {}
        _check_parameters("features_extractor_kwargs", resolved["features_extractor_class"], raw)
    return resolved


def _check_net_arch(raw: Any) -> None:
    """SB3's forms: layers of both networks, or of each; lists of layers with a mapping in them are those of SB3 1."""
    parts = list(raw.values()) if isinstance(raw, dict) else [raw]
    sizes = [size for part in parts for size in (part if isinstance(part, (list, tuple)) else [part])]
    if raw is not None and any(type(size) is not dict and (type(size) is not int or size < 1) for size in sizes):
        example = "[64, 64] or {pi: [64], vf: [64]}"
        raise ValueError(f"policy_kwargs: net_arch={raw!r} must be sizes of layers, at least 1, such as {example}.")


def _check_parameters(option: str, cls: type, raw: dict[str, Any]) -> None:
    """A class with ``**kwargs`` passes them on to the next one in its MRO."""
    known: set[str] = set()
    for base in cls.__mro__:
        parameters = inspect.signature(vars(base)["__init__"]).parameters if "__init__" in vars(base) else {}
        known |= set(parameters)
        if parameters and not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    check_keywords(f"{option} of {cls.__name__}", raw, known)


def _resolve(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    known, kind = _BY_NAME[key]
    matching = {name.lower(): found for name, found in known.items()}.get(value.removeprefix("nn.").lower())
    if matching is not None:
        return matching
    if "." in value:
        return import_class(f"policy_kwargs: {key}", f"torch.{value}" if value.startswith("nn.") else value, kind)
    raise ValueError(f"policy_kwargs: there is no {key} {value!r}: {nearest(value, known)}")


class PolicyOptions(BasePolicy):
    """
    Mixin for actor-critic policies; with its default options the policy is SB3's, weight for weight.

    :param layer_norm: normalise each hidden layer before its activation
    :param dropout: fraction of hidden units that are dropped while learning
    :param ortho_gain: gain of the orthogonal initialisation of the hidden layers (SB3: sqrt(2))
    :param weight_decay: decoupled weight decay (AdamW)
    """

    mlp_extractor: MlpExtractor

    def __init__(
        self,
        *args: Any,
        layer_norm: bool = False,
        dropout: float = 0.0,
        ortho_gain: float | None = None,
        weight_decay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        layer_norm = read_flag("policy_kwargs: layer_norm", layer_norm)
        dropout, weight_decay = read_number("dropout", dropout), read_number("weight_decay", weight_decay)
        ortho_gain = None if ortho_gain is None else read_number("ortho_gain", ortho_gain)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"policy_kwargs: dropout={dropout} must be at least 0 and less than 1.")
        self._options = {"layer_norm": layer_norm, "dropout": dropout, "ortho_gain": ortho_gain}
        if weight_decay > 0:
            kwargs = _with_weight_decay(kwargs, weight_decay)
        super().__init__(*args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()  # type: ignore[misc]
        extractor = self.mlp_extractor
        extractor.policy_net = self._with_options(extractor.policy_net)
        extractor.value_net = self._with_options(extractor.value_net)

    def _with_options(self, layers: nn.Sequential) -> nn.Sequential:
        if not self._options["layer_norm"] and not self._options["dropout"]:
            return layers
        extended: list[nn.Module] = []
        for layer in layers:
            extended.append(layer)
            if isinstance(layer, nn.Linear):
                extended += [nn.LayerNorm(layer.out_features)] if self._options["layer_norm"] else []
            elif self._options["dropout"]:
                extended.append(nn.Dropout(self._options["dropout"]))
        return nn.Sequential(*extended).to(self.device)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        if self._options["ortho_gain"] is not None:
            self.mlp_extractor.apply(partial(self.init_weights, gain=self._options["ortho_gain"]))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), **self._options}


def _with_weight_decay(kwargs: dict[str, Any], weight_decay: float) -> dict[str, Any]:
    optimizer_kwargs = {**(kwargs.get("optimizer_kwargs") or {}), "weight_decay": weight_decay}
    if kwargs.get("optimizer_class", th.optim.Adam) is th.optim.Adam:
        # Adam's own weight decay is scaled by the moments; people mean AdamW's. The epsilon is SB3's
        return {**kwargs, "optimizer_class": th.optim.AdamW, "optimizer_kwargs": {"eps": 1e-5, **optimizer_kwargs}}
    return {**kwargs, "optimizer_kwargs": optimizer_kwargs}


class MlpPolicy(PolicyOptions, ActorCriticPolicy):
    """For vectors and discrete states."""


class CnnPolicy(PolicyOptions, ActorCriticCnnPolicy):
    """For images."""


class MultiInputPolicy(PolicyOptions, MultiInputActorCriticPolicy):
    """For Dict observations."""


class LstmInOneCall(RecurrentActorCriticPolicy):
    """
    Mixin for recurrent policies. sb3-contrib calls the LSTM step by step where a sequence begins an episode, to reset
    its state. Its buffer cuts sequences there, so the initial state is the only one to reset.
    """

    @staticmethod
    def _process_sequence(
        features: th.Tensor, lstm_states: tuple[th.Tensor, th.Tensor], episode_starts: th.Tensor, lstm: nn.LSTM
    ) -> Any:
        process = RecurrentActorCriticPolicy._process_sequence
        n_sequences = lstm_states[0].shape[1]
        starts = episode_starts.reshape(n_sequences, -1)
        if starts[:, 1:].any():
            return process(features, lstm_states, episode_starts, lstm)
        goes_on = (1.0 - starts[:, 0]).view(1, n_sequences, 1)
        hidden, cell = (goes_on * state for state in lstm_states)
        return process(features, (hidden, cell), th.zeros_like(episode_starts), lstm)


class MlpLstmPolicy(PolicyOptions, LstmInOneCall, RecurrentActorCriticPolicy):
    """Recurrent, for vectors and discrete states."""


class CnnLstmPolicy(PolicyOptions, LstmInOneCall, RecurrentActorCriticCnnPolicy):
    """Recurrent, for images."""


class MultiInputLstmPolicy(PolicyOptions, LstmInOneCall, RecurrentMultiInputActorCriticPolicy):
    """Recurrent, for Dict observations."""


class MaskableMlpPolicy(PolicyOptions, MaskableActorCriticPolicy):
    """With action masks, for vectors and discrete states."""


class MaskableCnnPolicy(PolicyOptions, MaskableActorCriticCnnPolicy):
    """With action masks, for images."""


class MaskableMultiInputPolicy(PolicyOptions, MaskableMultiInputActorCriticPolicy):
    """With action masks, for Dict observations."""


POLICIES: dict[str, type[BasePolicy]] = {
    "MlpPolicy": MlpPolicy,
    "CnnPolicy": CnnPolicy,
    "MultiInputPolicy": MultiInputPolicy,
}
LSTM_POLICIES: dict[str, type[BasePolicy]] = {
    "MlpLstmPolicy": MlpLstmPolicy,
    "CnnLstmPolicy": CnnLstmPolicy,
    "MultiInputLstmPolicy": MultiInputLstmPolicy,
}
MASKABLE_POLICIES: dict[str, type[BasePolicy]] = {
    "MlpPolicy": MaskableMlpPolicy,
    "CnnPolicy": MaskableCnnPolicy,
    "MultiInputPolicy": MaskableMultiInputPolicy,
}
