"""Which backend keeps which namespace."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from memcore.config.read_only import ReadOnlyMap
from memcore.frozen import Frozen, NotBlankStr

#: The backends that a namespace can be routed to; not composite itself, which would route in a circle.
RoutedBackend = Literal["mem0", "inmemory"]


class CompositeBackendConfig(Frozen):
    """Route namespaces to backends; only when ``memory.backend`` is ``composite``.

    Attributes:
        routes: the backend of each namespace.
        default: the backend of all other namespaces.
    """

    routes: Annotated[
        Mapping[NotBlankStr, RoutedBackend],
        AfterValidator(ReadOnlyMap),
        PlainSerializer(dict, return_type=dict[str, str]),
    ] = Field(default=ReadOnlyMap({}))
    default: RoutedBackend = "inmemory"

    @property
    def names(self) -> Mapping[str, str]:
        """The backend that each key of this section names, by the key's dotted name."""
        routes = {f"memory.composite.routes.{namespace}": name for namespace, name in self.routes.items()}
        return {"memory.composite.default": self.default, **routes}
