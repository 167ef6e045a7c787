#!/bin/sh
# A standalone Spark cluster on this machine: a master, two workers, one run, all stopped again.
#   examples/07_cluster.sh [further options of evenflow run]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${EVENFLOW_BIN:-$here/../.venv/bin}
port=${MASTER_PORT:-7077}
export EVENFLOW_RUNS="${EVENFLOW_RUNS:-$here/runs}"
mkdir -p "$EVENFLOW_RUNS"

# Spark's own scripts, from the PySpark package; everything on the loopback address.
export SPARK_HOME="$("$bin/python" -c 'import pyspark, os; print(os.path.dirname(pyspark.__file__))')"
export SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$bin/python"
class="$SPARK_HOME/bin/spark-class"
started=""
stop() {
  for process in $started; do kill "$process" 2>/dev/null || true; done
  for process in $started; do wait "$process" 2>/dev/null || true; done
}
trap stop EXIT INT TERM

"$class" org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$port" --webui-port 0 \
  >"$EVENFLOW_RUNS/cluster-master.log" 2>&1 &
started="$!"
for worker in 1 2; do
  "$class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --webui-port 0 --cores 1 --memory 1g \
    --work-dir "$EVENFLOW_RUNS/cluster-work-$worker" "spark://127.0.0.1:$port" \
    >"$EVENFLOW_RUNS/cluster-worker-$worker.log" 2>&1 &
  started="$started $!"
done

"$bin/evenflow" run "$here/07_cluster.yaml" --master "spark://127.0.0.1:$port" --fresh --no-page "$@"
