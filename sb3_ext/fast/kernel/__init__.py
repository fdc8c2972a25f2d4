"""The kernel in C: see kernel.c. ``WHY_NOT`` is set where it was not built; nothing else may be used then."""

__all__ = ["N_METRICS", "WHY_NOT", "Kernel", "gae"]

WHY_NOT: str | None = None
try:
    from sb3_ext.fast.kernel._kernel import N_METRICS, Kernel, gae
except ImportError as error:
    WHY_NOT = f"its kernel was not built when sb3-ext was installed, which needs a C compiler ({error})"
    N_METRICS, Kernel, gae = 0, None, None  # type: ignore[assignment, misc]
