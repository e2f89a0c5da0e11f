-- Keys, indexes, views, triggers, policies and comments: what a restore must bring back around the rows.
alter table shop.customer add primary key (id);
create unique index customer_email on shop.customer (lower(email));
create index customer_settings on shop.customer using gin (settings jsonb_path_ops);
create index customer_search on shop.customer using gin (search);
create index customer_debtors on shop.customer (country, balance desc nulls last) where balance < 0;
create statistics shop.customer_where (dependencies, mcv) on country, kind from shop.customer;

alter table shop.product add primary key (id);
alter table shop.product add constraint product_sku unique (sku);
create unique index product_uid on shop.product (uid) include (title);
alter table shop.product replica identity using index product_uid;
alter table shop.product add constraint product_price check (price >= 0);

alter table shop."order" add primary key (id, placed_at, channel);
create index order_open on shop."order" (customer_id) where status = 'open';
alter table shop."order" add constraint order_customer foreign key (customer_id) references shop.customer;
alter table shop.order_item add primary key (order_id, placed_at, channel, line);
alter table shop.order_item add constraint item_order
  foreign key (order_id, placed_at, channel) references shop."order" on delete cascade;
alter table shop.order_item add constraint item_product foreign key (product_id) references shop.product;

alter table shop.stock add primary key (product_id, warehouse);
alter table shop.stock add foreign key (product_id) references shop.product on update cascade;
create index visit_at on shop.visit using brin (at);
alter table shop.promotion add primary key (id);
alter table shop.promotion add constraint one_at_a_time exclude using gist (during with &&);
alter table shop.wish add primary key (customer_id, product_id);
alter table shop.wish add foreign key (customer_id) references shop.customer;
alter table shop.discount add primary key (code);
alter table "Order's Archive"."Lines ""before"" 2023" add primary key ("Line No.");
create index "Index, with 'quotes'" on "Order's Archive"."Lines ""before"" 2023" (("select" || 'x'), "50% off");

alter table hr.department add primary key (id);
alter table hr.department add unique nulls not distinct (name, part_of);
alter table hr.employee add primary key (id);
alter table hr.department add foreign key (part_of) references hr.department;
alter table hr.department add constraint department_head
  foreign key (head) references hr.employee deferrable initially deferred;
alter table hr.employee add foreign key (department_id) references hr.department;
alter table hr.employee add foreign key (manager_id) references hr.employee on delete set null;
alter table hr.employee add foreign key (customer_id) references shop.customer;
-- One row breaks it: it was added for new rows only.
alter table hr.employee add constraint paid check (salary > 0) not valid;

alter table hr.employee enable row level security;
create policy own_department on hr.employee using (department_id::text = current_setting('hr.department', true));
grant select on shop.product to public;
grant usage on schema shop to public;

create view shop.open_order as
  select o.id, o.placed_at, c.name, o.total from shop."order" o join shop.customer c on c.id = o.customer_id
  where o.status = 'open';
create view hr.staff with (security_barrier) as
  select e.id, e.name, d.name as department from hr.employee e join hr.department d on d.id = e.department_id;
create materialized view shop.sales_by_product as
  select product_id, count(*) as items, sum(amount) as amount from shop.order_item group by product_id;
create unique index sales_by_product_id on shop.sales_by_product (product_id);

create function shop.order_total(wanted bigint) returns numeric language sql stable
  begin atomic
    select sum(amount) from shop.order_item where order_id = wanted;
  end;

-- A restore that loads rows with these triggers in place changes updated_at and doubles the history.
create function shop.touch() returns trigger language plpgsql as $body$
begin
  new.updated_at := clock_timestamp();
  return new;
end $body$;
create trigger touch before insert or update on shop.customer for each row execute function shop.touch();
create trigger touch before insert or update on shop."order" for each row execute function shop.touch();

create function shop.remember_price() returns trigger language plpgsql as $body$
begin
  insert into shop.product_history values (coalesce(new.id, old.id), tg_op, clock_timestamp(), old.price, new.price);
  return null;
end $body$;
create trigger remember_price after insert or update or delete on shop.product
  for each row execute function shop.remember_price();
alter table shop.product enable always trigger remember_price;

do $body$
begin
  if current_setting('server_version_num')::integer >= 180000 then
    alter table shop.stock add column missing boolean generated always as (pieces <= 0) virtual;
  end if;
end $body$;

comment on schema shop is 'What the shop sells, and to whom';
comment on table shop.customer is E'It''s a "customer";\nnot a \\user';
comment on column shop.customer.home is 'Where the parcels go';
comment on type shop.customer_kind is 'Kinds of customers';
comment on index shop.customer_email is 'One account per address, whatever the case';
comment on function shop.order_total is 'Sum of one order';
comment on constraint paid on hr.employee is 'Since 2020';
comment on trigger touch on shop.customer is 'Keeps updated_at';
comment on column "Order's Archive"."Lines ""before"" 2023"."50% off" is '50% -- really';
