create table orders (
    id     text primary key,
    status text not null default 'new',
    total  text not null
);
