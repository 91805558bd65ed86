"""Workers and their slots: who is there, who holds which slot."""
