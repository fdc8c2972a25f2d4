"""The fast path: the same training with less work around it.

Small pieces that replace SB3's general ones for the usual policies: networks that are evaluated and differentiated
without autograd (`mlp`), distributions without Distribution objects (`heads`), parameters and their optimizer in one
flat vector (`flat`), rollouts whose values are computed at once (`rollouts`). `path` says where they apply; everything
else takes the plain path.
"""
