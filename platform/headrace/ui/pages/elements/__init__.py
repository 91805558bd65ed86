"""The parts of pages: frame, panels, tables, plots, graph, dialog."""
