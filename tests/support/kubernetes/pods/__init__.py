"""What tests run as pods: coordinators, workers, programs of this machine, built images, Spark."""
