"""`headrace run`: one job in slot processes of this host, its folder, logs and kept state."""
