-- The generic cell rate algorithm: of a bucket only the moment is kept at which it will be full again.
-- KEYS[1] the count; ARGV[1] requests that a full bucket holds, ARGV[2] microseconds that an empty one takes to fill,
-- ARGV[3] how many requests to take, none or one. Answers how many remain and, when there were too few, how many
-- microseconds to wait.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local each = ARGV[2] / ARGV[1]
local full = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
-- Time that the present requests, and one more, take to be made up for, beyond what a bucket holds.
local wait = full + each - now - ARGV[2]
if wait > 0 then
  return {0, math.ceil(wait)}
end
if ARGV[3] == '1' then
  full = full + each
  redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
end
return {math.floor((now + ARGV[2] - full) / each), 0}
