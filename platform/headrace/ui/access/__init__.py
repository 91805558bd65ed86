"""Who may open a page: tokens, sessions, and requests that come from pages of other sites."""
