"""The page (`headrace ui`): a process of its own that asks a coordinator's REST API and serves browsers.

    views    pure: the content of a page, from the documents of REST
    polling  requests to the coordinator, and the samples of the last minutes, shared by all pages
    access   who may open a page
    pages    the pages themselves; only they, and `server`, import NiceGUI

It imports `client` and what is below it, and the planner, which checks a pipeline before it is submitted.
"""
