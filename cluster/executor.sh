#!/bin/bash
# Runs an executor of Spark on Kubernetes: Spark names none but this role, and says the rest in variables of the pod.
# Source: Spark's own image, whose entry point does the same.
set -euo pipefail

spark=$(python3 -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')

# Spark reads its secret from a file only where it knows that this is Kubernetes, and does not tell its executors.
options=(-Dspark.master=k8s://executor)
for ((number = 0; ; number++)); do
  name=SPARK_JAVA_OPT_$number
  [[ -v $name ]] || break
  options+=("${!name}")
done

exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "$spark/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
