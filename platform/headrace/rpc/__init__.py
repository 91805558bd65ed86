"""The control plane between coordinator, workers and slots: messages, their protobuf form, server and client streams."""
