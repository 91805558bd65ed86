"""What a page shows, as frozen values, from the documents of REST. Pure."""
