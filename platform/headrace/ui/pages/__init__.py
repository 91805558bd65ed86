"""The pages, made of NiceGUI elements from the values of `views`."""
