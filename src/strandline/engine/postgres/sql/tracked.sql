-- How far the log has taken a source.
select position from {schema}.tracking where source = $1
