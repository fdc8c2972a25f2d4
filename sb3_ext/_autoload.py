"""Runs at every interpreter start (see sb3_ext_autoload.pth): notices when RL Zoo is imported, then registers us.

Costs microseconds until then, so it imports nothing but ``sys``, and it never breaks an import: what goes wrong while
registering becomes a warning, and RL Zoo goes on without us.
"""

import sys

#: RL Zoo's modules that the seam touches: before they are loaded, or after (see ``sb3_ext.zoo.seams``).
_BEFORE = frozenset(
    {"rl_zoo3.benchmark", "rl_zoo3.load_from_hub", "rl_zoo3.push_to_hub", "rl_zoo3.record_training"},
)
_AFTER = frozenset(
    {"rl_zoo3.exp_manager", "rl_zoo3.hyperparams_opt", "rl_zoo3.import_envs", "rl_zoo3.utils"},
)


def _apply(when: str, name: str) -> None:
    try:
        from sb3_ext.zoo import seams

        seams.apply(when, name)
    except Exception as error:
        import warnings

        warnings.warn(f"sb3-ext could not plug into {name}, which goes on without it: {error!r}", stacklevel=2)


class RLZooFinder:
    """A finder on ``sys.meta_path`` that finds nothing itself, and acts around the import of RL Zoo's modules."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if not name.startswith("rl_zoo3."):
            return None
        if name in _BEFORE:
            _apply("before", name)
        if name not in _AFTER:
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path, target)
            if spec is not None:
                cls._run_after_exec(spec)
                return spec
        return None

    @staticmethod
    def _run_after_exec(spec) -> None:  # type: ignore[no-untyped-def]
        exec_module = spec.loader.exec_module

        def exec_then_apply(module):  # type: ignore[no-untyped-def]
            exec_module(module)
            _apply("after", spec.name)

        spec.loader.exec_module = exec_then_apply


def install() -> None:
    """Put the finder in place, once."""
    if RLZooFinder not in sys.meta_path:
        sys.meta_path.insert(0, RLZooFinder)


install()
