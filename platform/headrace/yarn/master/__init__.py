"""The ApplicationMaster's side of an application: `allocation` decides (pure), `link` is the JVM, and
`application_master` the thread between them."""
