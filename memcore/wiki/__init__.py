"""Experience as folders of Markdown files, for people: what agents went through, and what it taught them."""

from memcore.wiki.after_night import export_after_night
from memcore.wiki.exporter import WikiExporter
from memcore.wiki.wiki_export import WikiExport

__all__ = ["WikiExport", "WikiExporter", "export_after_night"]
