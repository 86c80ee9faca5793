"""The memory service: the one entry for what the command line, HTTP and MCP do with a company's memories.

``MemoryService`` has an object for each subject, such as ``service.runs``; a subject's module may be imported by none
but ``service.py``, for its results' types excepted.
"""

from memcore.service.service import MemoryService as MemoryService
from memcore.service.service import create_memory_service as create_memory_service
