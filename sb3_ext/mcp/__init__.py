"""``sb3-ext mcp``: a server of the Model Context Protocol, so that a language model can work with runs.

Here is what only the protocol needs: the tools with their descriptions (one method each, over functions of ``runs`` and
``zoo``), the processes that trainings and players run in, and the checks of what a client sends. A client is not
trusted: ``client_values`` decides what it may set, ``inside`` which folders it may name. What a tool shows belongs in
``runs`` or ``zoo``, where the command line uses it too.
"""
