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

local function load_bucket(value)
  if not value then return nil end
  local anchor, whole = string.match(value, '^(%d+)(%d%d%d%d)$')
  if anchor then return tonumber(whole), tonumber(anchor), 0 end
  local w, a, part = string.match(value, '^(%d+):(%d+):(%d+)$')
  return tonumber(w), tonumber(a), tonumber(part)
end

local function dump_bucket(level, token_ticks, ticks_per_us, now)
  local rest = level % token_ticks
  local whole = (level - rest) / token_ticks
  local back = 0
  if rest > 0 then back = math.ceil(rest / ticks_per_us) end
  local part = back * ticks_per_us - rest
  if part == 0 and whole < 10000 then
    return string.format('%.0f%04d', now - back, whole)
  end
  return string.format('%.0f:%.0f:%.0f', whole, now - back, part)
end

local function milliseconds_to_full(missing, ticks_per_us)
  if missing <= 0 then return 1 end
  if ticks_per_us == 0 then return FOREVER_MS end
  return math.ceil(missing / ticks_per_us / 1000)
end

local time = redis.call('TIME')
local now = math.max(0, (time[1] - EPOCH) * 1000000 + time[2])

local levels, known, stepped_back = {}, {}, {}
local passes = true
local at, index = 1, 0
for k = 1, #KEYS do
  local count = tonumber(ARGV[at])
  local fields = {}
  for i = 1, count do fields[i] = ARGV[at + 1 + (i - 1) * ARGS] end
  local stored = redis.pcall('HMGET', KEYS[k], unpack(fields))
  if stored.err then
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
    redis.call('DEL', KEYS[k]) -- what is not a hash is not ours and would block this client for ever
    stored = {}
  end
  for i = 1, count do
    local base = at + 1 + (i - 1) * ARGS
    local token_ticks, ticks_per_us = tonumber(ARGV[base + 1]), tonumber(ARGV[base + 2])
    local level = tonumber(ARGV[base + 3])
    local whole, anchor, part = load_bucket(stored[i])
    index = index + 1
    if whole then
      local grown = (now - anchor) * ticks_per_us - part
      if anchor > now then stepped_back[index] = true end
      level = math.min(level, whole * token_ticks + math.max(0, grown))
      known[index] = true
    end
    levels[index] = level
    if ARGV[base + 5] == '1' and level < tonumber(ARGV[base + 4]) then passes = false end
  end
  at = at + 1 + count * ARGS
end

at, index = 1, 0
for k = 1, #KEYS do
  local count = tonumber(ARGV[at])
  local writes, lifetime = {}, 0
  for i = 1, count do
    local base = at + 1 + (i - 1) * ARGS
    local ticks_per_us, cost = tonumber(ARGV[base + 2]), tonumber(ARGV[base + 4])
    index = index + 1
    local level = levels[index]
    local taken = passes and cost > 0 and level >= cost
    if taken then level = level - cost end
    if taken or stepped_back[index] then
      writes[#writes + 1] = ARGV[base]
      writes[#writes + 1] = dump_bucket(level, tonumber(ARGV[base + 1]), ticks_per_us, now)
    end
    if taken or known[index] then
      lifetime = math.max(lifetime, milliseconds_to_full(tonumber(ARGV[base + 3]) - level, ticks_per_us))
    end
  end
  if #writes > 0 then redis.call('HSET', KEYS[k], unpack(writes)) end
  if lifetime > 0 and redis.call('PTTL', KEYS[k]) < lifetime then
    -- a little longer than needed, so that most requests need not renew it
    redis.call('PEXPIRE', KEYS[k], string.format('%.0f', lifetime + math.min(math.floor(lifetime / 8), 30000) + 1000))
  end
  at = at + 1 + count * ARGS
end

if #levels == 1 then return levels[1] end
return levels
