-- For the option `-script` of redis_exporter: every field that the module has in INFO, as pairs of name and number.
local result = {}
for name, value in string.gmatch(redis.call("INFO", "bf"), "(bf_[%w_]+):(%d+)") do
  table.insert(result, name)
  table.insert(result, value)
end
return result
