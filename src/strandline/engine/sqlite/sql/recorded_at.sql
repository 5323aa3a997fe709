-- When the event at a position was recorded.
select recorded_at from event where position = ?1
