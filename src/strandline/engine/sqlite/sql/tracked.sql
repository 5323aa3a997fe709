-- How far the log has taken a source.
select position from tracking where source = ?1
