#!/bin/sh
# The image runs as a driver (`evenflow run ...`) or as an executor that Spark on Kubernetes starts
# with the argument `executor` and SPARK_* variables, as its own image does.
set -eu
if [ "${1:-}" != executor ]; then
  exec tini -s -- "$@"
fi
set --
for number in $(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=.*/\1/p' | sort -n); do
  eval "option=\$SPARK_JAVA_OPT_$number"
  set -- "$@" "$option"
done
exec tini -s -- java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
