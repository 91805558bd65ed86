from headrace.api.on_spark import replay as replay
from headrace.api.verifying import verify as verify
from headrace.spark.bootstrap import bootstrap as bootstrap
from headrace.spark.state_source import register_state as register
