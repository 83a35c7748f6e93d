-- Look at buckets at one instant of this server's clock; take from all of them, or from none.
--
-- KEYS   one hash for each identity; a field for each rule
-- ARGV   for each key: the number of its operations, then for each operation
--          field  token_ticks  ticks_per_us  full_ticks  cost_ticks  enforce(1|0)
-- reply  the level of each bucket before this, in ticks (core/limit.py says what a tick is): an integer when there is
--        one operation, else a list in the order of the operations. Everything was taken if and only if every
--        enforced operation found its cost; the caller sees that from the levels.
--
-- A field holds what core/token_bucket.py calls a bucket: whole tokens, and since when (microseconds since 2025).
--   <anchor><whole, four digits>     one integer, which a hash stores in eight bytes
--   <whole>:<anchor>:<part>          where whole is above 9999, or the anchor lies between two microseconds
-- Under 100/minute, two requests 10 ms apart leave 60480000000000099 and then 60480000000000098.
--
-- Anything else in a field is a bucket that nobody knows. The key lives until its slowest bucket is full.

local EPOCH = 1735689600 -- 2025-01-01, so that an anchor and four digits fit 63 bits until 2054
local FOREVER_MS = 30 * 86400000 -- how long a quota that never refills is remembered after its last use
local ARGS = 6

local call, sub, number = redis.call, string.sub, tonumber
local time = redis.call('TIME')
local now = (time[1] - EPOCH) * 1000000 + time[2]
if now < 0 then now = 0 end

-- whole, anchor, part; nothing for a bucket that nobody knows
local function load_bucket(value)
  if not value then return nil end
  local whole, anchor = number(sub(value, -4)), number(sub(value, 1, -5))
  if whole and anchor and whole >= 0 and anchor >= 0 then return whole, anchor, 0 end -- neither negative nor NaN
  local w, a, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  return number(w), number(a), number(part)
end

local function dump_bucket(level, token_ticks, ticks_per_us)
  local rest = level % token_ticks
  local whole = (level - rest) / token_ticks
  if rest == 0 and whole < 10000 then return string.format('%d%04d', now, whole) end
  local back = 0
  if rest > 0 then back = math.ceil(rest / ticks_per_us) end -- without a refill there is never a rest
  local part = back * ticks_per_us - rest
  if part == 0 and whole < 10000 then return string.format('%d%04d', now - back, whole) end
  return string.format('%d:%d:%d', whole, now - back, part)
end

-- Let the key live until a bucket that lacks `missing` ticks is full; a little longer, so that most requests need not
-- renew it. A key without an end, whoever took it away, gets one.
local function keep(key, missing, ticks_per_us)
  local lifetime = FOREVER_MS
  if missing <= 0 then
    lifetime = 1
  elseif ticks_per_us > 0 then
    lifetime = math.ceil(missing / ticks_per_us / 1000)
  end
  if call('PTTL', key) < lifetime then
    call('PEXPIRE', key, string.format('%.0f', lifetime + math.min(math.floor(lifetime / 8), 30000) + 1000))
  end
end

local function stored_buckets(key, fields)
  local stored = redis.pcall('HMGET', key, unpack(fields))
  if not stored.err then return stored end
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored.err) end
  call('DEL', key) -- what is not a hash is not ours and would block this client for ever
  return {}
end

local levels, known, stepped_back = {}, {}, {}
local passes = true
local at, index = 1, 0
for k = 1, #KEYS do
  local count = number(ARGV[at])
  local fields = {}
  for i = 1, count do fields[i] = ARGV[at + 1 + (i - 1) * ARGS] end
  local stored = stored_buckets(KEYS[k], fields)
  for i = 1, count do
    local base = at + 1 + (i - 1) * ARGS
    local token_ticks, ticks_per_us = number(ARGV[base + 1]), number(ARGV[base + 2])
    local level = number(ARGV[base + 3])
    local whole, anchor, part = load_bucket(stored[i])
    index = index + 1
    if whole then
      local grown = (now - anchor) * ticks_per_us - part
      stepped_back[index] = anchor > now
      known[index] = true
      if grown < 0 then grown = 0 end
      if whole * token_ticks + grown < level then level = whole * token_ticks + grown end
    end
    levels[index] = level
    if ARGV[base + 5] == '1' and level < number(ARGV[base + 4]) then passes = false end
  end
  at = at + 1 + count * ARGS
end

at, index = 1, 0
for k = 1, #KEYS do
  local count = number(ARGV[at])
  local writes, renewals = {}, {}
  for i = 1, count do
    local base = at + 1 + (i - 1) * ARGS
    local ticks_per_us, cost = number(ARGV[base + 2]), number(ARGV[base + 4])
    index = index + 1
    local level = levels[index]
    local taken = passes and cost > 0 and level >= cost
    if taken then level = level - cost end
    if taken or stepped_back[index] then
      writes[#writes + 1] = ARGV[base]
      writes[#writes + 1] = dump_bucket(level, number(ARGV[base + 1]), ticks_per_us)
    end
    if taken or known[index] then renewals[#renewals + 1] = {number(ARGV[base + 3]) - level, ticks_per_us} end
  end
  if #writes > 0 then call('HSET', KEYS[k], unpack(writes)) end
  for _, renewal in ipairs(renewals) do keep(KEYS[k], renewal[1], renewal[2]) end
  at = at + 1 + count * ARGS
end

if #levels == 1 then return levels[1] end
return levels
