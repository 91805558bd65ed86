"""The content of pages as frozen values, from the documents of REST. Pure."""
