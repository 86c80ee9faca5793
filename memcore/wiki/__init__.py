"""Experience as folders of Markdown files, for people: what agents went through, and what it taught them."""

from memcore.wiki.exporter import WikiExporter, export_after_run
from memcore.wiki.pages import WikiExport

__all__ = ["WikiExport", "WikiExporter", "export_after_run"]
