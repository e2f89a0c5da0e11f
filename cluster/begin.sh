#!/bin/sh
# Makes what there is once: Airflow's tables, the shop, the archive with its replicas, the source's publication.
set -eu
airflow db migrate
PYTHONPATH=/opt/demo python -c "
import os
from demo import shop
with __import__('psycopg').connect(os.environ['SHOP_ADMIN'], autocommit=True) as session:
    there = session.execute(\"select 1 from pg_database where datname = 'shop'\").fetchone()
there or shop.create(os.environ['SHOP_ADMIN'], 'shop', 0.1)
"
if ! holdfast replica status --json >/run/holdfast/status.json 2>/dev/null || ! grep -q '"near"' /run/holdfast/status.json; then
  holdfast status s3://near/shop --json >/dev/null 2>&1 || holdfast init s3://near/shop --name shop
  holdfast replica add near s3://near/shop
fi
for name in far third; do
  grep -q "\"$name\"" /run/holdfast/status.json 2>/dev/null || holdfast replica add "$name" "s3://$name/shop"
done
PGPASSWORD=$SHOP_PASSWORD holdfast source setup shop_db --changes --identity-full 'shop.*' --run
