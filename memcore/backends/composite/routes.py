"""Which child keeps which namespace, and which children a filter can match."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from memcore.backends.composite.child import Child
from memcore.errors import MemoryConfigError


class Routes:
    """Choose children by namespace; every namespace that has no route of its own belongs to the default.

    Args:
        children: the backends by name.
        routes: child's name per namespace.
        default: name of the child for all other namespaces.

    Raises MemoryConfigError when a route or the default names no child.
    """

    def __init__(self, children: Mapping[str, Child], *, routes: Mapping[str, str], default: str) -> None:
        named = {"default": default, **{f"routes.{namespace}": name for namespace, name in routes.items()}}
        for key, name in named.items():
            if name not in children:
                known = ", ".join(sorted(children)) or "none"
                raise MemoryConfigError(f"memory.composite.{key}: {name!r} is no backend of it, choose one of {known}")
        self._children = MappingProxyType(dict(children))
        self._routes = dict(routes)
        self._default = default

    @property
    def children(self) -> Mapping[str, Child]:
        """Every child by its name."""
        return self._children

    @property
    def default(self) -> Child:
        """The child of all namespaces without a route."""
        return self._children[self._default]

    def child_of(self, namespace: str) -> str:
        """Return the name of the child that keeps a namespace."""
        return self._routes.get(namespace, self._default)

    def targets(self, namespaces: Collection[str] | None) -> Mapping[str, Child]:
        """Return the children that can hold memories of these namespaces: all for None, none for no namespace."""
        if namespaces is None:
            return self._children
        names = {self.child_of(namespace) for namespace in namespaces}
        return {name: child for name, child in self._children.items() if name in names}
