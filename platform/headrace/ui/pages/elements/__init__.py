"""What pages are made of: frame, panels, tables, plots, graph, dialog."""
