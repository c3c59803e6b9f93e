"""The architecture as data: who may import whom. tests/arch checks the source against these tables.

A *unit* is a top-level module or package of `sekai` (`sekai.core.slots` belongs to the unit `core`; the root
`sekai/__init__.py` is the unit `sekai`). A module may import its own unit and every unit of a lower layer.
"""

from __future__ import annotations

# Lowest first. Units of one line do not import one another.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "seeding", "colours"),
    ("spaces",),
    ("core",),
    ("stats",),
    ("wrappers",),
    ("vector",),
    ("registry",),
    ("testing",),
    ("finance",),
    ("envs", "collect"),
    ("compat",),
    ("safety", "lab"),
    ("cli",),
    ("__main__", "sekai"),
)

# Sideways or upward all the same: (importing module, imported module) -> why. Such an import may only stand
# inside a function, so that it runs on first use, or under `if TYPE_CHECKING`.
LAZY_EXCEPTIONS: dict[tuple[str, str], str] = {}

# The two domains, finance and safety, know nothing of each other, collect knows neither, and filters work without
# torch and what needs it, though the layers would allow it: importing package -> packages it must not reach.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "sekai.safety": ("sekai.finance", "sekai.envs.finance"),
    "sekai.collect": ("sekai.finance", "sekai.envs"),
    "sekai.safety.filters": ("torch", "sekai.compat", "sekai.safety.learners", "sekai.safety.tensor"),
}

# The one bridge between them.
BRIDGES: tuple[str, ...] = ("sekai.safety.tasks.finance",)

# Third-party packages that live in named places only. A place is a module or package of sekai.
PLACES: dict[str, tuple[str, ...]] = {
    "numba": ("sekai.core.kernels",),
    "torch": ("sekai.safety", "sekai.compat", "sekai.collect.returns_torch"),
    "stable_baselines3": ("sekai.safety", "sekai.compat"),
    "ray": ("sekai.vector.ray",),
    "typer": ("sekai.cli",),
    "rich": ("sekai.cli",),
    "matplotlib": ("sekai.cli", "sekai.envs.finance", "sekai.safety"),
    "yaml": ("sekai.safety.tasks.recipes",),
    "panel": ("sekai.lab",),
    "param": ("sekai.lab",),
    "bokeh": ("sekai.lab",),
    "scipy": ("sekai.lab",),
    "pygame": (),
    "pettingzoo": (),  # environments are handed in; their API is enough
    "arch": (),  # only its bundled data file is read; importing it costs seconds
    "skfolio": (),
}

# What `import sekai` must not load, unless `import gymnasium` alone does.
HEAVY: tuple[str, ...] = (
    "torch", "ray", "numba", "pandas", "matplotlib", "asyncio", "cloudpickle", "typer", "rich", "yaml",
    "panel", "bokeh", "scipy",
)  # fmt: skip

# Where printing is the purpose.
PRINTS: tuple[str, ...] = ("sekai.cli",)
#: a worker process seeds the global generators for the environments in it, and a checkpoint keeps those that
#: Stable-Baselines3 draws from; neither draws anything
SEEDS_GLOBALS: tuple[str, ...] = ("sekai.vector.child", "sekai.safety.checkpoints")

# Import name -> distribution name, where they differ.
DISTRIBUTIONS: dict[str, str] = {"stable_baselines3": "stable-baselines3", "yaml": "pyyaml"}

# Packages that come with an extra: a module that needs one is not imported where the extra is missing.
OPTIONAL: frozenset[str] = frozenset(
    {
        "torch",
        "stable_baselines3",
        "ray",
        "matplotlib",
        "arch",
        "skfolio",
        "narwhals",
        "polars",
        "pyarrow",
        "pygame",
        "yaml",
        "panel",
        "param",
        "scipy",
    }
)
