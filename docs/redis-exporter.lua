-- For the option `-script` of redis_exporter. Returns pairs of name and number: every field that the module has in INFO,
-- then the state of single filters as `bf_filter_...:KEY`. The limits below keep the script short, since other clients wait.

-- The filters to report. If the list is empty, the script searches the database.
local keys = {}
-- Limits: filters to report, keys to search per type of filter, and milliseconds.
local filters_max, keys_max, ms_max = 100, 10000, 10

-- Redis 7.0 has no `os`. In later servers TIME stands still during a script.
local os = rawget(_G, "os")
local function now_ms()
  if os then
    return os.clock() * 1000
  end
  local time = redis.call("TIME")
  return time[1] * 1000 + time[2] / 1000
end

local start_ms = now_ms()
local result, reported, reports = {}, {}, 0
-- Fields of INFO; 0 without the module.
local info = setmetatable({}, { __index = function() return 0 end })

local function report(name, value)
  table.insert(result, name)
  table.insert(result, tostring(value))
end

local function is_over()
  return reports >= filters_max or now_ms() - start_ms > ms_max
end

local function escaped(byte)
  return string.format("\\x%02X", string.byte(byte))
end

local function report_filter(key)
  local reply = redis.pcall("BF.STATS", key)
  if is_over() or reported[key] or reply.err then
    return
  end
  reported[key], reports = true, reports + 1
  local stats = {}
  for place = 1, #reply, 2 do
    stats[reply[place].ok or reply[place]] = reply[place + 1]
  end
  local label = ":" .. string.gsub(key, "[%c \\\128-\255]", escaped)
  report("bf_filter_error_rate" .. label, stats["error-rate-now"])
  if stats["error-rate"] then
    report("bf_filter_error_rate_ratio" .. label, stats["error-rate-now"] / stats["error-rate"])
  end
  report("bf_filter_layers" .. label, stats.layers)
  -- A filter that grows accepts items beyond its capacity and keeps its error rate.
  if stats.growth ~= "scaling" and tonumber(stats.capacity) > 0 then
    report("bf_filter_capacity_used" .. label, stats.items / stats.capacity)
  end
end

-- Reports the filters of a type, until all `count` are found.
local function search(type, count)
  local cursor, searched, found = "0", 0, 0
  while found < count and searched < keys_max and not is_over() do
    local reply = redis.call("SCAN", cursor, "TYPE", type, "COUNT", 100)
    for _, key in ipairs(reply[2]) do
      report_filter(key)
    end
    cursor, searched, found = reply[1], searched + 100, found + #reply[2]
    if cursor == "0" then
      return
    end
  end
end

for name, value in string.gmatch(redis.call("INFO", "bf"), "(bf_[%w_]+):(%d+)") do
  report(name, value)
  info[name] = tonumber(value)
end
for _, key in ipairs(keys) do
  report_filter(key)
end
if #keys == 0 then
  search("MBbloom--", info.bf_redisbloom_filters)
  search("bloomfltr", info.bf_valkey_bloom_filters)
  search("everbloom", info.bf_filters - info.bf_redisbloom_filters - info.bf_valkey_bloom_filters)
end
report("bf_filter_reports", reports)
return result
