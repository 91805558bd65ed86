"""The CustomResourceDefinitions, generated from the models of `operator.resources`."""
