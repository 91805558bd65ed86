"""A plan as levels that Spark shuffles between: blobs, their envelope, back ends."""
