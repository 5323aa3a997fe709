-- How far the log has taken what other sources hold, the newest refused appends, and notes about the log itself.
create table tracking (
    source text primary key,
    position integer not null -- the last one of the source that an append came with
) strict, without rowid;

create table refusal (
    slot integer primary key check (slot between 0 and 999), -- the number of the refusal modulo 1,000: the newest ones stay
    number integer not null, -- counts the refusals that were kept, from 1
    recorded_at integer not null, -- microseconds since 1970
    events text not null, -- JSON: ids, types and tags, never data
    condition text, -- JSON, null if it has no such form
    part integer not null,
    item integer,
    conflict integer not null, -- the position of the event that was in the way
    head integer not null
) strict;

create table note (
    key text primary key, -- last_check, last_backup
    value text not null
) strict, without rowid;
