"""What the algorithms share: keyword checks, returns, update diagnostics, parameter snapshots.

Pure pieces that know nothing of RL Zoo, of environments or of one particular algorithm belong here.
"""
