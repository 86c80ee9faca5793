"""The rule by which memories are worth something, as the company has installed it."""

from importlib.metadata import entry_points

from memcore.errors import MemoryConfigError
from memcore.maintenance.value import MemoryValue, usual_value

#: Entry points under which a company's package names its rule.
GROUP = "memtend.memory_value"


def installed_value() -> MemoryValue:
    """Return the rule that an installed package names, or else the shipped one.

    A package names it in its pyproject.toml::

        [project.entry-points."memtend.memory_value"]
        ours = "our_package.memories:value"

    Raises:
        MemoryConfigError: two packages name one, or it cannot be loaded or called.
    """
    found = list(entry_points(group=GROUP))
    if not found:
        return usual_value
    names = ", ".join(sorted(f"{each.name} = {each.value}" for each in found))
    if len(found) > 1:
        raise MemoryConfigError(
            f"the value of memories: {GROUP} is named more than once ({names}); uninstall all but one"
        )
    try:
        value: MemoryValue = found[0].load()
    except Exception as error:
        raise MemoryConfigError(f"the value of memories: {names} cannot be loaded ({type(error).__name__})") from error
    if not callable(value):
        raise MemoryConfigError(f"the value of memories: {names} names no function")
    return value
