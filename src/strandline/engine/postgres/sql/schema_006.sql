-- How far the log has taken what other sources hold, the newest refused appends, and notes about the log itself.
create table tracking (
    source text collate "C" primary key,
    position bigint not null -- the last one of the source that an append came with
);

create table refusal (
    slot integer primary key check (slot between 0 and 999), -- the number of the refusal modulo 1,000: the newest ones stay
    number bigint not null, -- counts the refusals that were kept, from 1
    recorded_at bigint not null, -- microseconds since 1970
    events text not null, -- JSON: ids, types and tags, never data
    condition text, -- JSON, null if it has no such form
    part integer not null,
    item integer,
    conflict bigint not null, -- the position of the event that was in the way
    head bigint not null
);

create table note (
    key text collate "C" primary key, -- last_check, last_backup
    value text not null
);

drop function if exists append_v3; -- it takes tracked positions now
