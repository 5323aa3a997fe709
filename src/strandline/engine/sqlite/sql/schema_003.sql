-- Followers: how far each has delivered, and who runs it; and the events that they gave up on.
create table follower (
    name text primary key,
    query text not null, -- JSON, empty if it has no such form
    start integer not null, -- nothing up to here was ever delivered
    position integer not null, -- the checkpoint: everything up to here was delivered
    judged integer not null, -- with the tags as of this head
    epoch integer not null, -- grows whenever the lease changes hands: who has an older one cannot commit
    owner text not null, -- empty if nobody runs it
    renewed_at integer not null, -- microseconds since 1970
    lease integer not null, -- microseconds for which a renewal is good
    is_paused integer not null,
    error text not null -- why it stopped, empty if it did not
) strict, without rowid;

create table dead_letter (
    follower text not null,
    position integer not null,
    error text not null,
    traceback text not null,
    attempts integer not null,
    time integer not null, -- microseconds since 1970
    primary key (follower, position)
) strict, without rowid;
