#!/bin/sh
# What Spark on Kubernetes starts in a container of this image:
#
#   driver ARGUMENTS..    a driver, by spark-submit, which Spark gives the arguments
#   executor              an executor; Spark tells it in SPARK_EXECUTOR_..
#   COMMAND ..            anything else
set -eu

# of the pip package, unless the image has another Spark
SPARK_HOME=${SPARK_HOME:-$(python3 -c 'import pyspark; print(pyspark.__path__[0])')}
export SPARK_HOME
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
# ours may be a Python of its own among others of the image
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-python3}" PYSPARK_DRIVER_PYTHON="${PYSPARK_DRIVER_PYTHON:-python3}"

# Hadoop wants everybody to have a name; Kubernetes may run this as any user
if ! getent passwd "$(id -u)" >/dev/null && [ -w /etc/passwd ]; then
    echo "spark-user:x:$(id -u):$(id -g):of this container:${HOME:-/}:/bin/false" >>/etc/passwd
fi

case "${1:-}" in
driver)
    shift
    set -- "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    set -- -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*:${SPARK_EXTRA_CLASSPATH:-}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    # JVM options come one by one: SPARK_JAVA_OPT_0, _1 and so on; the order of such options does not matter
    number=0
    while eval "option=\${SPARK_JAVA_OPT_$number:-}" && [ -n "$option" ]; do
        set -- "$option" "$@"
        number=$((number + 1))
    done
    set -- "$java" "$@"
    ;;
esac
# whatever it leaves behind is reaped
! command -v tini >/dev/null || set -- tini -s -- "$@"
exec "$@"
