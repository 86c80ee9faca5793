"""The wiki: experience as folders of Markdown files for people, raw and compressed."""

from memcore.wiki.exporter import WikiExporter
from memcore.wiki.pages import WikiExport

__all__ = ["WikiExport", "WikiExporter"]
