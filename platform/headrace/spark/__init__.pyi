from headrace.api.spark.replaying import replay as replay
from headrace.api.spark.replaying import verify as verify
from headrace.spark.savepoints.bootstrapping import bootstrap as bootstrap
from headrace.spark.savepoints.bootstrapping import bootstrap_columns as bootstrap_columns
from headrace.spark.state_source import register_state as register

__all__ = ["replay", "verify", "bootstrap", "bootstrap_columns", "register"]
