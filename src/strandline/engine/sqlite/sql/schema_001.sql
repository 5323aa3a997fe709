-- The log, as it is made. `event` can be read by itself; `posting` is the one index by which every query item
-- finds its events, with tags and types as the small numbers of `name` (every event carries tag 0).
create table log (
    one integer primary key check (one = 1),
    uuid blob not null,
    refused integer not null default 0
) strict;
insert into log (one, uuid) values (1, randomblob(16));

create table name (
    id integer primary key,
    text text not null unique
) strict;
insert into name (id, text) values (0, '');

create table event (
    position integer primary key,
    type text not null,
    data blob not null,
    tags text not null, -- the present ones, joined by newlines
    stream text,
    subject text,
    id blob not null,
    metadata blob,
    recorded_at integer not null -- microseconds since 1970
) strict;
create unique index event_by_id on event (id);

create table posting (
    tag integer not null,
    type integer not null,
    position integer not null,
    primary key (tag, type, position)
) without rowid, strict;

-- One row per append; `last` is null when it is `first`, `shape` is null when there was no condition.
create table append (
    first integer primary key,
    last integer,
    shape integer,
    arguments text
) strict;

-- Conditions of one shape differ only in tags and positions, which are the arguments of an append.
create table shape (
    id integer primary key,
    text text not null unique
) strict;
insert into shape (id, text) values (1, 'not_recorded'), (2, 'not_auditable'), (3, 'json');

-- The tags as appended, of events that were retagged since.
create table appended_tags (
    position integer primary key,
    tags text not null
) strict;
