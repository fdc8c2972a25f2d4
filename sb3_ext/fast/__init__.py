"""The fast path: the same training with less work around it.

Small pure pieces that take the place of SB3's general ones where a policy is of a usual kind: networks that are asked
and differentiated without autograd (`mlp`), distributions without Distribution objects (`heads`), parameters and their
optimizer in one flat vector (`flat`), rollouts whose values are computed in one go (`rollouts`). `applies` says where
they apply; everything else takes the plain path.
"""
