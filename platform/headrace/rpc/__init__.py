"""The control plane of coordinator, workers and slots: messages, their protobuf form, server and client streams."""
