-- Fills the tables; every value follows from its row's number. shop.scale is set by shop.py.
create function pg_temp.scaled(rows integer) returns integer
  return greatest(2, (rows * current_setting('shop.scale')::float8)::integer);

insert into shop.customer (email, name, kind, country, home, tags, settings, balance, joined, updated_at)
select
  format('Customer.%s@example.org', i),
  case i % 50 when 0 then E'Zoë "the\tquick" O''Brien \\ ' || i when 1 then '李小龍 🐉 ' || i else 'Customer ' || i end,
  (enum_range(null::shop.customer_kind))[1 + i % 3],
  (array['CH', 'DE', 'FR', 'IT', 'PT'])[1 + i % 5],
  case when i % 7 > 0 then row(i % 200 || ' Main Street', 'City, ' || i % 90, lpad((i % 10000)::text, 4, '0'),
    point(i % 180, -i % 90))::shop.address end,
  case i % 4 when 0 then '{}' when 1 then array['new', null, ''] else array['n' || i % 9, 'a,b', '"q"'] end,
  jsonb_build_object('news', i % 2 = 0, 'limit', i * 1.50, 'since', null, 'path', jsonb_build_array(i, 'x')),
  ((i * 7919) % 200000 - 50000) / 100.0,
  timestamptz '2020-01-01 00:00:00+00' + i * interval '37 minutes',
  timestamptz '2024-06-01 00:00:00+00' + i * interval '1.000001 seconds'
from generate_series(1, pg_temp.scaled(40000)) i;

insert into shop.product (sku, title, description, price, tax_rate, weight_kg, volume, picture, attributes, sold, uid)
select
  format('SKU-%s', lpad(i::text, 8, '0')),
  'Product ' || i,
  case when i % 100 = 0 then repeat('Long description of product ' || i || E'.\n', 500) when i % 3 > 0 then '' end,
  (i * 104729 % 9999999) / 10000.0,
  (array[0.081, 0.026, 0.0])[1 + i % 3],
  i / 7.0,
  i / 3.0,
  case when i % 20 = 0 then decode(repeat(md5(i::text), 100), 'hex') when i % 20 = 1 then '' end,
  case when i % 2 = 0 then jsonb_build_object('colour', md5(i::text), 'sizes', jsonb_build_array(i % 5, i % 7)) end,
  case i % 4 when 0 then 'empty' when 1 then daterange(null, date '2030-01-01') when 2 then
    daterange(date '2020-01-01' + i % 1000, 'infinity') end,
  md5('product' || i)::uuid
from generate_series(1, pg_temp.scaled(5000)) i;

insert into shop."order" (customer_id, placed_at, channel, status, total, note, updated_at)
select
  1 + (i::bigint * 7919) % customers,
  timestamptz '2022-10-01 00:00:00+00' + (i::bigint * 86028121 % 94608000) * interval '1 second',
  (array['web', 'app', 'shop', 'telephone'])[1 + i % 4],
  (enum_range(null::shop.order_status))[1 + i % 4],
  (i::bigint * 15485863 % 1000000) / 100.0,
  case when i % 10 = 0 then 'Please leave at no. ' || i when i % 10 = 1 then '' end,
  timestamptz '2025-01-01 00:00:00+00' + i * interval '1 millisecond'
from generate_series(1, pg_temp.scaled(90000)) i, (select count(*) as customers from shop.customer);

insert into shop.order_item (order_id, placed_at, channel, line, product_id, quantity, unit_price)
select
  id, placed_at, channel, line,
  1000 + 5 * ((id * 31 + line * 17) % products),
  1 + (id + line) % 9,
  (id * 99991 % 9999999) / 10000.0
from shop."order", generate_series(1, 2) line, (select count(*) as products from shop.product);

insert into shop.stock (product_id, warehouse, pieces, counted_at)
select id, chr((65 + id % 4)::integer)::"char", id % 500 - 3, timestamp '2024-01-01' + id * interval '1 hour'
from shop.product;

insert into shop.visit (at, visitor, path, took)
select
  timestamp '2024-01-01' + (i % 20000) * interval '1.5 seconds',
  case i % 3 when 0 then inet '10.0.0.0' + i when 1 then inet '2001:db8::' + i end,
  '/p/' || i % 1000,
  case when i % 5 > 0 then (i % 300) * interval '1 day 0.01 seconds' - interval '1 month' end
from generate_series(1, pg_temp.scaled(60000)) i;
insert into shop.visit select * from shop.visit limit pg_temp.scaled(2000);

insert into "Order's Archive"."Lines ""before"" 2023" (obsolete, "select", "50% off", "naïve ☃", "back\slash")
select 'gone ' || i, 'line ' || i, (array[true, false, null])[1 + i % 3], i / 3.0, E'\\' || i
from generate_series(1, pg_temp.scaled(20000)) i;
alter table "Order's Archive"."Lines ""before"" 2023" drop column obsolete;
alter table "Order's Archive"."Lines ""before"" 2023" add column "Added Later" text default 'old row';

insert into shop.promotion (name, during)
select 'Week ' || i, tstzrange(week, week + interval '7 days')
from generate_series(1, 100) i, lateral (select timestamptz '2023-01-02 00:00:00+00' + i * interval '7 days' as week);
insert into shop.cart
select md5('cart' || i)::uuid, 1000 + 5 * (i % 2), i % 10 from generate_series(1, pg_temp.scaled(2000)) i;
insert into shop.wish
select i, 1000 + 5 * (i % 2) from generate_series(1, pg_temp.scaled(3000)) i;
insert into shop.discount select 'CODE' || i, i % 50 from generate_series(1, 20) i;
insert into shop.discount_seasonal select 'SEASON' || i, i % 50, 'winter' from generate_series(1, 30) i;

-- Departments and their heads point at each other.
insert into hr.department (name, part_of, head)
select 'Department ' || i, nullif(i / 2, 0), i * 3 from generate_series(1, 20) i;
insert into hr.employee (department_id, name, hired, salary, manager_id, customer_id, badge)
select
  1 + i % 20, 'Employee ' || i, date '2000-01-01' + i * 9,
  case when i = 13 then -1 else 3000 + i * 1.25 end,
  nullif(i / 3, 0), case when i % 2 = 0 then 1 + i % 2 end, i::bit(16)
from generate_series(1, 600) i;

select setval('shop.order_number', 5000000);
create sequence shop.never_used minvalue -10 maxvalue 10 start -5 cycle;
create sequence hr.countdown as smallint increment -1 start -1 minvalue -100 maxvalue -1;
select nextval('hr.countdown') from generate_series(1, 42);
