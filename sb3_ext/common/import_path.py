"""A class by its import path, for options that may name one of the user's."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sb3_ext.common.names import nearest

__all__ = ["import_class", "import_object"]


def import_class(option: str, path: str, kind: type) -> Any:
    """
    :param path: module and class, such as ``my_package.MyCNN``
    :param kind: the class that it must be a subclass of
    """

    def is_kind(found: Any) -> bool:
        return isinstance(found, type) and issubclass(found, kind)

    found = import_object(option, path, is_kind, f"subclass of {kind.__name__}")
    if not is_kind(found):
        name = f"{kind.__module__}.{kind.__name__}"
        raise ValueError(f"{option}: {path!r} can't be used: it must be a subclass of {name}, and is {found!r}.")
    return found


def import_object(option: str, path: str, is_kind: Callable[[Any], bool], kind: str) -> Any:
    """
    :param path: module and name, such as ``my_package.MyWrapper``
    :param is_kind: tells objects that may have been meant
    :param kind: what these are called
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
        of_kind = [key for key, value in vars(module).items() if is_kind(value)]
        hint = nearest(name, of_kind) if of_kind else f"it has no {kind} at all."
        raise ValueError(f"{given} {module_name!r} has no {name!r}: {hint}")
    return getattr(module, name)
