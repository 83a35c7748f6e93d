
-- A field holds <moment><count, four digits>, which a hash stores in eight bytes, or <count>:<moment>:<part>: how many,
-- and since or until when, in microseconds since 2025. What that means is up to the algorithm (core/*.py).
-- Anything else in a field is a bucket that nobody knows. A key lives until its slowest bucket says nothing any more.

local FOREVER_MS = 30 * 86400000 -- how long a quota that never refills is remembered after its last use

local call, sub, number, format, ceil, floor = redis.call, string.sub, tonumber, string.format, math.ceil, math.floor

-- count, moment, part; nothing for a bucket that nobody knows
local function load(value)
  if not value then return nil end
  local count, moment = number(sub(value, -4)), number(sub(value, 1, -5))
  if count and moment and count >= 0 and moment >= 0 then return count, moment, 0 end -- neither negative nor NaN
  local c, m, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  return number(c), number(m), number(part)
end

local function dump(count, moment, part)
  if part == 0 and count < 10000 then return format('%d%04d', moment, count) end
  return format('%d:%d:%d', count, moment, part)
end

-- Let the key live for so long; up to twice as long, so that most requests need not renew it. A key without an end,
-- whoever took it away, gets one.
local function keep(key, lifetime_us)
  local lifetime = lifetime_us and lifetime_us / 1000 or FOREVER_MS
  if call('PTTL', key) < lifetime then
    call('PEXPIRE', key, format('%.0f', lifetime + math.min(lifetime, 30000) + 1000))
  end
end
