-- One log, as it is made; run with the log's own schema as search path. `event` can be read by itself; `posting` is
-- the one index by which tags find their events (until migration 004 every event carried the tag '', too).
create table log (
    one boolean primary key default true check (one),
    uuid uuid not null default gen_random_uuid(),
    version integer not null,
    refused bigint not null default 0
);
insert into log (version) values (0);

-- The first event of an append has how many there are (span, null: one) and the condition of the append (null: none);
-- the others have how far the first one is behind, as a negative span.
create table event (
    position bigint primary key,
    recorded_at bigint not null, -- microseconds since 1970
    append bigint not null,
    span integer,
    id uuid not null,
    type text collate "C" not null,
    tags text collate "C" not null, -- the present ones, joined by newlines
    stream text collate "C",
    subject text collate "C",
    metadata bytea, -- JSON, null if empty
    condition text, -- JSON, or 'not_recorded', or 'not_auditable'
    data bytea not null
);
create unique index event_by_id on event (id);

create table posting (
    tag text collate "C" not null,
    type text collate "C" not null,
    position bigint not null,
    primary key (tag, type, position)
);

-- The tags as appended, of events that were retagged since.
create table appended_tags (
    position bigint primary key,
    tags text collate "C" not null
);
