"""What the reference needs to know about the source, as an extension of griffe, which reads it."""

from __future__ import annotations

from typing import Any

import griffe


class Sekai(griffe.Extension):
    """Docstrings as the manual shows them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Docstrings have one `Example:`, which griffe takes for a remark; it shows `Examples:` as code."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """A value is described by the `#:` comment above it; without one by nothing but itself."""
        if attr.docstring is None and attr.parent is not None and attr.parent.is_module:
            attr.docstring = griffe.Docstring(comment_above(attr), parent=attr)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """`register = DEFAULT.register` and its like become functions, with the docstring of the method."""
        store = pkg["registry.store"]
        for name, value in list(store.attributes.items()):
            if str(value.value) == f"DEFAULT.{name}":
                method = store[f"Registry.{name}"]
                parameters = griffe.Parameters(*list(method.parameters)[1:])
                function = griffe.Function(name, parameters=parameters, returns=method.returns, lineno=method.lineno)
                function.docstring = method.docstring
                store.set_member(name, function)


def comment_above(attr: griffe.Attribute) -> str:
    """The `#:` lines that end in the line before a value, as one text."""
    lines = attr.module.lines_collection[attr.module.filepath][: (attr.lineno or 1) - 1]
    found: list[str] = []
    while lines and lines[-1].startswith("#:"):
        found.insert(0, lines.pop().removeprefix("#:").strip())
    return " ".join(found)
