"""The fast path: the same training with less work around it.

Multi-layer perceptrons are computed by a kernel in C (`kernel`), images by torch with the kernel's losses. `path` says
where it applies; everything else takes the plain path. `rollouts` lets SB3's own loop collect without a critic.
"""
