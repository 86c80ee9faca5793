"""Creates the configured executor, and ends by name what one has left running."""

from pathlib import Path

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import FineTuneDependencyError, MemoryConfigError
from memcore.finetune.execution.docker import DockerExecutor, end_container
from memcore.finetune.execution.docker_engine import docker_library
from memcore.finetune.execution.process import ProcessExecutor
from memcore.finetune.execution.process import end_by_name as end_process
from memcore.finetune.execution.protocol import StageExecutor


def execution_of(settings: Settings, policy: Policy) -> FineTuneExecutionConfig:
    """Return where stages run: as the policy says, or in containers of the image that the environment names."""
    config = policy.memory.fine_tune
    if settings.fine_tune_image is None:
        return config
    return config.model_copy(update={"backend": "docker", "image": settings.fine_tune_image})


def require_executor(config: FineTuneExecutionConfig) -> None:
    """Raise MemoryConfigError, which names the key, unless this machine can run stages there."""
    if config.backend == "docker":
        try:
            docker_library()
        except FineTuneDependencyError as error:
            raise MemoryConfigError(f"memory.fine_tune.backend: is docker, and {error}") from None


def create_executor(config: FineTuneExecutionConfig, scratch: Path) -> StageExecutor:
    """Return the executor of the stages, whose runners' configurations lie in the scratch folder."""
    return DockerExecutor(scratch, config) if config.backend == "docker" else ProcessExecutor(scratch)


def end_by_name(name: str) -> bool:
    """End a running stage by its name (``process:...``, ``container:...``); return whether there was one.

    Of a container it raises FineTuneDependencyError without the library, and FineTuneStageError from the engine.
    """
    return end_process(name) or end_container(name)
