#!/bin/sh
# Writes Spark's configuration, with the cluster's secret, into memory; then runs what it is given. The one word
# `executor` is what Spark gives its pods on Kubernetes.
set -eu
umask 077
if [ -n "${SPARK_SECRET:-}" ]; then
  cat >"$SPARK_CONF_DIR/spark-defaults.conf" <<CONF
spark.authenticate true
spark.authenticate.secret $SPARK_SECRET
spark.network.crypto.enabled true
spark.io.encryption.enabled true
CONF
  unset SPARK_SECRET
fi
if [ "$*" = executor ]; then
  exec "$(dirname "$0")/executor.sh"
fi
exec "$@"
