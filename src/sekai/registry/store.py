"""The registry: which id stands for which environment, and where ids come from when they are asked for.

A lookup goes through these places and takes the first that knows the id:

    "module:id"      import the module, then look up the id
    "namespace/..."  call the loader of a namespace that was not asked for before
    sekai's entries  the id itself
    plugins          entry points of the group "sekai.envs", loaded once; then sekai's entries again
    sekai's entries  the highest version, for an id without one
    gymnasium        the id itself, then the highest version
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import ENV_ID_RE, WrapperSpec

from sekai.errors import EnvAlreadyRegistered, EnvNotFound
from sekai.registry.plugins import load_plugins
from sekai.registry.specs import EnvSpec, check_entry_point, copy_containers, import_module
from sekai.wrappers.time import check_max_episode_steps

GRAMMAR = "[namespace/]name[-vN]"


class Registry:
    """Entries by id; `sekai.register` and the other functions are methods of the one instance, `DEFAULT`."""

    def __init__(self) -> None:
        self._entries: dict[str, EnvSpec] = {}
        self._loaders: dict[str, Callable[[], object]] = {}
        self._plugins_loaded = False

    def register(
        self,
        id: str,
        entry_point: Callable[..., Any] | str,
        *,
        vector_entry_point: Callable[..., Any] | str | None = None,
        max_episode_steps: int | None = None,
        reward_threshold: float | None = None,
        nondeterministic: bool = False,
        kwargs: Mapping[str, Any] | None = None,
        additional_wrappers: Iterable[Callable[[Any], Any] | WrapperSpec] = (),
    ) -> EnvSpec:
        """Give an environment an id.

        Args:
            id: `[namespace/]name[-vN]`.
            entry_point: what builds the single environment: a class, a function or `"module:attribute"`,
                which is imported when it is first used.
            vector_entry_point: the same for its native vector environment, called with `num_envs`, the
                arguments of the environment, `max_episode_steps` when there is a limit, and `vector_kwargs`.
            max_episode_steps: truncate episodes after so many steps.
            reward_threshold: mean return at which the task counts as solved.
            nondeterministic: whether equal seeds may give different episodes.
            kwargs: arguments of the constructor, overridden by those given to `make`.
            additional_wrappers: applied to every environment that is made, innermost first: functions
                `env -> env` or gymnasium's `WrapperSpec`.

        Returns:
            The entry.

        Raises:
            EnvAlreadyRegistered: the id is taken.
            TypeError, ValueError: an argument that cannot be right; nothing is registered.
        """
        check_id(id)
        check_entry_point(entry_point, "entry_point", id)
        if vector_entry_point is not None:
            check_entry_point(vector_entry_point, "vector_entry_point", id)
        entry = EnvSpec(
            id,
            entry_point,
            reward_threshold=reward_threshold,
            nondeterministic=nondeterministic,
            max_episode_steps=None if max_episode_steps is None else check_max_episode_steps(max_episode_steps),
            kwargs=_check_kwargs(kwargs, id),
            additional_wrappers=_check_additional(additional_wrappers, id),
            vector_entry_point=vector_entry_point,
        )
        self.add(entry)
        return entry

    def add(self, entry: EnvSpec) -> None:
        """Take an entry as it is.

        Raises:
            EnvAlreadyRegistered: its id is taken.
        """
        taken = self._entries.get(entry.id)
        if taken is not None:
            raise EnvAlreadyRegistered(
                f"{entry.id!r} is registered already (entry point {taken.entry_point!r}): "
                f"call sekai.deregister({entry.id!r}) first, or choose another id."
            )
        self._entries[entry.id] = entry

    def deregister(self, id: str) -> None:
        """Forget an id.

        Raises:
            EnvNotFound: sekai's registry has no such entry (gymnasium's are not sekai's to remove).
        """
        if id not in self._entries:
            raise EnvNotFound(f"{id!r} is not registered with sekai, so it cannot be deregistered.{self._hint(id)}")
        del self._entries[id]

    def register_namespace(self, name: str, loader: Callable[[], object]) -> None:
        """Let `loader` register the ids of a namespace when the first of them is looked up.

        Args:
            name: the part of the ids before the slash.
            loader: called once, without arguments; it calls `register`. When it raises, the error goes to the
                caller of the lookup and the next lookup tries again.

        Raises:
            TypeError, ValueError: a loader that cannot be called; a name that is none, or is taken.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"The namespace is {name!r}; expected letters, digits, '_' and '-' only.")
        if not callable(loader):
            raise TypeError(f"The loader of namespace {name!r} is {loader!r}; expected a function without arguments.")
        if name in self._loaders:
            raise ValueError(f"The namespace {name!r} has a loader already.")
        self._loaders[name] = loader

    def spec(self, id: str) -> EnvSpec:
        """The entry of an id.

        Args:
            id: `[module:][namespace/]name[-vN]`. The module is imported first; without a version the highest
                is meant. Ids that only gymnasium knows are found as well.

        Raises:
            EnvNotFound: neither registry knows it; the message has the three closest names.
            ImportError: the module cannot be imported.
        """
        if not isinstance(id, str):
            raise TypeError(f"The id is {id!r} ({type(id).__name__}); expected a string {GRAMMAR}.")
        module, colon, name = id.rpartition(":")
        if colon:
            import_module(module, f"the environment {id!r}")
        entry = self._find(name)
        if entry is None:
            raise EnvNotFound(f"No environment {name!r}: neither sekai nor gymnasium knows it.{self._hint(name)}")
        return entry

    def all_specs(self) -> list[EnvSpec]:
        """The entries of sekai's registry, plugins included, in the order of their ids.

        Namespaces whose loader has not been called yet are not in it.
        """
        self._load_plugins()
        return [self._entries[id] for id in sorted(self._entries)]

    def _find(self, id: str) -> EnvSpec | None:
        match = ENV_ID_RE.fullmatch(id)
        if match is None:
            return None
        self._load_namespace(match["namespace"])
        if id not in self._entries:
            self._load_plugins()
        known = gymnasium.registry
        for entries in (self._entries, known):
            entry = entries.get(id) or (_highest(entries.values(), id) if match["version"] is None else None)
            if entry is not None:
                return EnvSpec.of(entry)
        return None

    def _load_namespace(self, name: str | None) -> None:
        loader = self._loaders.get(name) if name is not None else None
        if name is None or loader is None or loader is _loaded:
            return
        self._loaders[name] = _loaded  # before the call: the loader may look up its own ids
        try:
            loader()
        except BaseException as error:
            self._loaders[name] = loader
            error.add_note(f"while loading the namespace {name!r}")
            raise

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True  # before the call: a plugin may look up ids
            load_plugins()

    def _hint(self, id: str) -> str:
        """The three closest names of both registries."""
        known = {**dict.fromkeys(self._entries), **dict.fromkeys(gymnasium.registry)}
        by_folded = {name.lower(): name for name in reversed(known)}  # sekai's spelling wins
        close = difflib.get_close_matches(id.lower(), by_folded, n=3, cutoff=0.0)
        return f" The closest names: {', '.join(by_folded[name] for name in close)}."


def check_id(id: object) -> None:
    """Raise `TypeError` or `ValueError` unless `id` is one that can be registered and looked up."""
    if not isinstance(id, str):
        raise TypeError(f"The id is {id!r} ({type(id).__name__}); expected a string {GRAMMAR}.")
    if not ENV_ID_RE.fullmatch(id):
        raise ValueError(f"The id is {id!r}; expected {GRAMMAR} of letters, digits, '_', '-' and '.'.")
    if ":" in id:
        raise ValueError(f"The id {id!r} has a ':', which separates a module from an id in make('module:id').")


def _loaded() -> None:
    """Stands for the loader of a namespace that has been loaded."""


def _highest(entries: Iterable[Any], id: str) -> Any:
    """The entry of the highest version of an id without one, or None."""
    namespace, _, name = id.rpartition("/")
    versions = [
        entry
        for entry in entries
        if (entry.namespace or "", entry.name) == (namespace, name) and entry.version is not None
    ]
    return max(versions, key=lambda entry: entry.version, default=None)


def _check_kwargs(kwargs: Any, id: str) -> dict[str, Any]:
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise TypeError(f"kwargs of {id!r} is {kwargs!r}; expected a dict with the names of arguments as keys.")
    copied: dict[str, Any] = copy_containers(dict(kwargs))
    return copied


def _check_additional(wrappers: Any, id: str) -> tuple[Any, ...]:
    expected = "expected an iterable of functions env -> env, or gymnasium's WrapperSpec"
    if not isinstance(wrappers, Iterable) or isinstance(wrappers, str):
        raise TypeError(f"additional_wrappers of {id!r} is {wrappers!r}; {expected}.")
    given = tuple(wrappers)
    for wrapper in given:
        if not callable(wrapper) and not isinstance(wrapper, WrapperSpec):
            raise TypeError(f"additional_wrappers of {id!r} contains {wrapper!r}; {expected}.")
    return given


DEFAULT = Registry()
register = DEFAULT.register
deregister = DEFAULT.deregister
register_namespace = DEFAULT.register_namespace
spec = DEFAULT.spec
all_specs = DEFAULT.all_specs
