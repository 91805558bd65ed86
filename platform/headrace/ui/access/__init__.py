"""The access to pages: tokens, sessions, and requests that come from pages of other sites."""
