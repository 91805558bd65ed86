"""Workers and their slots: which workers are registered, and which attempt holds which slot."""
