
-- Two token buckets of one identity, both enforced: the most common case of several rules, at a price below that of
-- the loop in take_many.lua.
--
-- ARGV   for each  field  numbers, as in take_one.lua
-- reply  their levels before this; all costs were taken if all were there

local unpack_numbers = struct.unpack

-- The level and the numbers; no level for a bucket that needs more care.
local function plain_level(value, numbers)
  local token_ticks, ticks_per_us, full, cost = unpack_numbers(NUMBERS, numbers)
  if not value then return ticks_per_us > 0 and full, token_ticks, ticks_per_us, full, cost end
  local whole, moment, part = number(sub(value, -4)), number(sub(value, 1, -5)), 0
  if not moment then whole, moment, part = load(value) end
  if not whole or whole < 0 or moment < 0 or moment > now or ticks_per_us == 0 then return nil end
  local level, grown = whole * token_ticks, (now - moment) * ticks_per_us - part
  if grown > 0 then level = level + grown end
  return level < full and level or full, token_ticks, ticks_per_us, full, cost
end

if plain and #args == 4 then
  local key, one, two = KEYS[1], args[1], args[3]
  local stored = redis.pcall('HMGET', key, one, two)
  local level, token, per_us, full, cost = plain_level(stored[1], args[2])
  local level2, token2, per_us2, full2, cost2 = plain_level(stored[2], args[4])
  if level and level2 and cost > 0 and cost2 > 0 and not stored.err then
    local left, left2 = level, level2
    if level >= cost and level2 >= cost2 then
      left, left2 = level - cost, level2 - cost2
      call('HSET', key, one, dump_level(left, token, per_us), two, dump_level(left2, token2, per_us2))
    elseif not stored[1] and not stored[2] then
      return {level, level2}
    end
    local lasts, lasts2 = (full - left) / per_us, (full2 - left2) / per_us2
    keep(key, lasts > lasts2 and lasts or lasts2)
    return {level, level2}
  end
end
