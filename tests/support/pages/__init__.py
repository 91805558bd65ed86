"""The pages of the documentation: their blocks, commands and links, and rows for their examples."""
