-- States of projections that were folded from many events, so that the next fold begins there. Nothing is lost with them.
create table snapshot (
    projection text not null,
    key text not null,
    version text not null, -- of the projection; a state of another version is of no use
    position integer not null, -- everything up to here is in it
    state blob not null,
    primary key (projection, key)
);
