-- Followers: how far each has delivered, and who runs it; and the events that they gave up on.
create table follower (
    name text collate "C" primary key,
    query text not null, -- JSON, empty if it has no such form
    start bigint not null, -- nothing up to here was ever delivered
    position bigint not null, -- the checkpoint: everything up to here was delivered
    judged bigint not null, -- with the tags as of this head
    epoch bigint not null, -- grows whenever the lease changes hands: who has an older one cannot commit
    owner text not null, -- empty if nobody runs it
    renewed_at bigint not null, -- microseconds since 1970
    lease bigint not null, -- microseconds for which a renewal is good
    is_paused boolean not null,
    error text not null -- why it stopped, empty if it did not
);

create table dead_letter (
    follower text collate "C" not null,
    position bigint not null,
    error text not null,
    traceback text not null,
    attempts bigint not null,
    time bigint not null, -- microseconds since 1970
    primary key (follower, position)
);
