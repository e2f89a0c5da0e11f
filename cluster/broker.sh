#!/bin/sh
# Starts Celery's broker. Its password comes by a file in memory: a list of processes shows arguments.
set -eu
umask 077
cat >/run/holdfast/redis.conf <<CONF
requirepass $REDISCLI_AUTH
dir /data
appendonly yes
maxmemory-policy noeviction
CONF
unset REDISCLI_AUTH
exec redis-server /run/holdfast/redis.conf
