"""A stand-in for a Kubernetes cluster. It is not Kubernetes: it tests how Spark's own Kubernetes scheduler is used
here, and the image that users build, where a real cluster would be too much to build and to run.

    api       the part of the REST API that Spark's client speaks: pods, services, config maps, claims; watches
    objects   what is behind it
    kubelet   runs the containers of pods for real, in Docker, on a network of their own
    image     the image of deploy/spark, with this machine's programs instead of installed ones
    cluster   all of it together

What it leaves out: TLS, authentication and authorisation, scheduling and limits, clean ends of pods (a deleted one is
killed), init containers, probes, name resolution beyond a hosts file.
"""
