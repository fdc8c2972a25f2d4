"""A class by its import path, for options that may name one of the user's."""

from importlib import import_module
from typing import Any

from sb3_ext.common.names import nearest

__all__ = ["import_class"]


def import_class(option: str, path: str, kind: type) -> Any:
    """
    :param path: module and class, such as ``my_package.MyCNN``
    :param kind: the class that it must be a subclass of
    """
    module_name, _, name = path.rpartition(".")
    given = f"{option}: {path!r} can't be used:"
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            where = "neither installed nor in the folder in which `python -m` was started"
            raise ValueError(f"{given} there is no module {error.name!r}, {where}.") from None
        raise ValueError(f"{given} {module_name!r} imports {error.name!r}, which is not installed.") from error
    # A user's module may raise anything
    except Exception as error:
        raise ValueError(f"{given} importing {module_name!r} raised {error!r}.") from error
    if not hasattr(module, name):
        of_kind = [key for key, value in vars(module).items() if _is_kind(value, kind)]
        hint = nearest(name, of_kind) if of_kind else f"it has no subclass of {kind.__name__} at all."
        raise ValueError(f"{given} {module_name!r} has no {name!r}: {hint}")
    found = getattr(module, name)
    if not _is_kind(found, kind):
        raise ValueError(f"{given} it must be a subclass of {kind.__module__}.{kind.__name__}, and is {found!r}.")
    return found


def _is_kind(found: Any, kind: type) -> bool:
    return isinstance(found, type) and issubclass(found, kind)
