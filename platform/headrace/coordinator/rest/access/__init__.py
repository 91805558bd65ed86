"""The pure access checks of a request: its token, and the web page that sent it. Both need only the request's head."""
