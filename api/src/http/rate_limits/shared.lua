-- The generic cell rate algorithm: the only stored state of a bucket is the time it will be full again.
-- KEYS[1] the bucket; ARGV[1] capacity in requests, ARGV[2] microseconds to fill an empty bucket, ARGV[3] requests to
-- take, 0 or 1. Returns the remaining requests and, if the bucket is empty, the microseconds to wait.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local each = ARGV[2] / ARGV[1]
local full = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
-- Time until the bucket has room for one more request.
local wait = full + each - now - ARGV[2]
if wait > 0 then
  return {0, math.ceil(wait)}
end
if ARGV[3] == '1' then
  full = full + each
  redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
end
return {math.floor((now + ARGV[2] - full) / each), 0}
