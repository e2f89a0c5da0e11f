-- One turn of a busy shop: what write_more() does again and again, each time in one transaction.
insert into shop."order" (customer_id, placed_at, channel, status, total, updated_at)
select 1 + (%(turn)s + i) %% 2, timestamptz '2024-12-31 23:00:00+00' + (i + %(turn)s) * interval '1 minute',
  (array['web', 'shop'])[1 + i %% 2], 'open', i, now()
from generate_series(1, %(rows)s) i;

insert into shop.order_item (order_id, placed_at, channel, line, product_id, quantity, unit_price)
select id, placed_at, channel, 1, 1000, 1, 9.95 from shop."order" order by id desc limit %(rows)s - 1;

-- The one without items moves to another partition.
update shop."order" set placed_at = placed_at + interval '1 year', status = 'paid'
where id = (
  select id from shop."order" o where not exists (select from shop.order_item i where i.order_id = o.id)
  order by id desc limit 1
);

update shop.customer set balance = balance + 0.01, tags = tags || 'updated'::text
where id between 1 + %(turn)s %% 100 and 10 + %(turn)s %% 100;

update shop.product set price = price + 0.05 where id between 1000 and 1020;

insert into shop.visit (at, path) select now(), '/turn/' || i from generate_series(1, %(rows)s) i;

delete from shop.visit where ctid = any (array(select ctid from shop.visit order by at, path limit 7));

delete from shop.order_item
where (order_id, line) in (select order_id, line from shop.order_item order by order_id, line limit 3);

insert into "Order's Archive"."Lines ""before"" 2023" ("select", "50%% off") values ('turn', null);

update hr.employee set salary = salary + 1 where id between 20 and 25;

update shop.every_type set a_numeric = a_numeric + 0.1, integers = integers || 1 where id = 2 + %(turn)s %% 3;
