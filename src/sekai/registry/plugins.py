"""Plugins: installed packages that register environments, found through their entry points.

[project.entry-points."sekai.envs"]
my_package = "my_package.envs"              # importing the module registers
my_other = "my_package.envs:register_all"   # or calling the function does
"""

from __future__ import annotations

import warnings

GROUP = "sekai.envs"


def load_plugins() -> None:
    """Load every plugin. One that fails is a `RuntimeWarning` that names it; the others still load."""
    from importlib.metadata import entry_points

    for plugin in entry_points(group=GROUP):
        try:
            loaded = plugin.load()
            if callable(loaded):
                loaded()
        except Exception as error:
            warnings.warn(
                f"The plugin {plugin.name!r} ({plugin.value}) could not be loaded and its environments are "
                f"missing: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
