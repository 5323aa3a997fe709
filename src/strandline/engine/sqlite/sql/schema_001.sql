-- The log, as it is made. `event` can be read by itself; `posting` is the one index by which every query item
-- finds its events, with tags and types as the small numbers of `name` (every event carries tag 0).
create table log (
    one integer primary key check (one = 1),
    uuid blob not null,
    refused integer not null default 0,
    indexed_to integer not null default 0 -- `posting` has every entry up to here, and perhaps some after it
) strict;
insert into log (one, uuid) values (1, randomblob(16));

create table name (
    id integer primary key,
    text text not null unique
) strict;
insert into name (id, text) values (0, '');

-- The first event of an append has the number of the append, how many events it has (null: one), and its condition:
-- a shape (null: none) and the shape's arguments. The others have how far the first one is behind, as a negative span.
create table event (
    position integer primary key,
    type text not null,
    tags text not null, -- the present ones, joined by newlines
    stream text,
    subject text,
    id blob not null,
    metadata blob,
    recorded_at integer not null, -- microseconds since 1970
    append integer,
    span integer,
    shape integer,
    arguments text,
    data blob not null
) strict;
create unique index event_by_id on event (id);

create table posting (
    tag integer not null,
    type integer not null,
    position integer not null,
    primary key (tag, type, position)
) without rowid, strict;

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
