"""Runs at every interpreter start (see sb3_ext_autoload.pth): notices when RL Zoo is imported, then registers us.

Costs microseconds until then, so it imports nothing but ``sys``, and it never breaks an import: what goes wrong while
registering becomes a warning, and RL Zoo continues without us.
"""

import sys

#: RL Zoo's modules that the seam touches: before they are loaded, or after (see ``sb3_ext.zoo.seams``).
_BEFORE = frozenset(
    {"rl_zoo3.benchmark", "rl_zoo3.load_from_hub", "rl_zoo3.push_to_hub", "rl_zoo3.record_training"},
)
_AFTER = frozenset(
    {"rl_zoo3.exp_manager", "rl_zoo3.hyperparams_opt", "rl_zoo3.import_envs", "rl_zoo3.train", "rl_zoo3.utils"},
)


def _apply(when: str, name: str) -> None:
    try:
        from sb3_ext.zoo import seams

        seams.apply(when, name)
    # RL Zoo must work without us
    except Exception as error:
        _warn(name, error)


def _shorten_waiting() -> None:
    """
    By default, OpenMP's threads spin for several milliseconds after each operation of torch, on the cores that games
    are emulated on. It reads its settings when torch is imported; those of the user come first.
    """
    import os

    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "5000")  # about 0.1 ms


def _without_garbage_collection(do, module):  # type: ignore[no-untyped-def]
    """Imports leave nothing to collect, and Python would look through all of torch's objects several times: 0.3 s."""
    import gc

    if not gc.isenabled():
        do(module)
        return
    gc.disable()
    try:
        do(module)
    finally:
        gc.freeze()  # what is there now stays: later collections, and forked processes, leave it alone
        gc.enable()


def _warn(name: str, error: object) -> None:
    import warnings

    message = f"sb3-ext could not plug into {name}, which continues without it: {error!r}"
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:  # -W error
        if sys.stderr is not None:
            print(message, file=sys.stderr)


class _Loader:
    """
    Runs a module's own loader, then the seam, and leaves the module as if it had never been there. A new one for each
    import: a loader may belong to many modules (zipimport's does), or have attributes that can't be set.
    """

    def __init__(self, spec):  # type: ignore[no-untyped-def]
        self._spec = spec
        self._loader = spec.loader
        spec.loader = self

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self._loader, name)

    def get_code(self, name):  # type: ignore[no-untyped-def]
        # `python -m` executes the code itself
        self._spec.loader = self._loader
        return self._loader.get_code(name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        self._spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        _without_garbage_collection(self._import, module)

    def _import(self, module):  # type: ignore[no-untyped-def]
        self._loader.exec_module(module)
        _apply("after", self._spec.name)


class RLZooFinder:
    """A finder on ``sys.meta_path`` that finds nothing itself, and acts around the import of RL Zoo's modules."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name in _BEFORE:
            _apply("before", name)
        if name not in _AFTER:
            return None
        if "torch" not in sys.modules:
            _shorten_waiting()
        try:
            return cls._find(name, path, target)
        # The import asks the finder that failed itself, and gets its error
        except Exception:
            return None

    @classmethod
    def _find(cls, name, path, target):  # type: ignore[no-untyped-def]
        for finder in list(sys.meta_path):
            find_spec = None if finder is cls else getattr(finder, "find_spec", None)
            spec = find_spec and find_spec(name, path, target)
            if spec is None:
                continue
            if hasattr(spec.loader, "exec_module"):
                _Loader(spec)
            else:
                _warn(name, f"its loader {spec.loader!r} has no exec_module")
            return spec
        return None


def install() -> None:
    """Put the finder in place, once."""
    if RLZooFinder not in sys.meta_path:
        sys.meta_path.insert(0, RLZooFinder)


install()
