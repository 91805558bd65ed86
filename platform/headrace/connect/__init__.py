"""The contract that connectors and formats implement, and the registry that finds them. A batch contract: nothing in
it handles one record at a time, so a native fetch or produce path can stand behind it without touching an operator."""
