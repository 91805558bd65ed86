"""The contract that connectors and formats implement, and the registry that finds them.

The contract is a batch contract: no method handles one record at a time, so a native fetch or produce path can
implement it without a change to any operator.
"""
