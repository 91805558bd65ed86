"""Workers and their slots: who is registered, which attempt holds which slot."""
