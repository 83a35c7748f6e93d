-- This file and those that follow it make one script, in the order that script.py names. What most requests need, one
-- token bucket, comes first and returns from here: it defines no function and makes no table, which would cost more
-- than its arithmetic. token_bucket.lua says the same in words that can be read; a test holds them together.
--
-- KEYS   one hash for each identity, with a field for each rule
-- ARGV   field  numbers: token_ticks ticks_per_us full_ticks cost_ticks, four doubles; text would take five times as long
-- reply  the level before this, in ticks (core/limit.py says what a tick is); the cost was taken if it was there

local args = ARGV
local EPOCH = 1735689600 -- 2025-01-01, so that a moment and four digits fit 63 bits until 2054
local NUMBERS = '<dddd'
local plain = #args[1] == 4 and args[2] and #args[2] == 32
local time = redis.call('TIME')
local now = (time[1] - EPOCH) * 1000000 + time[2]
if now < 0 then now = 0 end

if plain and #args == 2 then
  local call, key, field = redis.call, KEYS[1], args[1]
  local value = redis.pcall('HGET', key, field)
  local token_ticks, ticks_per_us, full, cost = struct.unpack(NUMBERS, args[2])
  local level, whole, moment, part = full, nil, nil, 0
  if type(value) == 'string' then
    whole, moment = tonumber(string.sub(value, -4)), tonumber(string.sub(value, 1, -5))
    if not moment then
      local w, m, p = string.match(value, '^(%d+):(%d+):(%d+)$')
      whole, moment, part = tonumber(w), tonumber(m), tonumber(p)
    end
  end
  if ticks_per_us > 0 and (not value or (whole and whole >= 0 and moment >= 0 and moment <= now)) then
    if whole then
      local grown = (now - moment) * ticks_per_us - part
      level = whole * token_ticks
      if grown > 0 then level = level + grown end
      if level > full then level = full end
    end
    local left = level
    if level >= cost and cost > 0 then
      left = level - cost
      local rest, back = left % token_ticks, 0
      if rest > 0 then back = math.ceil(rest / ticks_per_us) end
      whole, part = (left - rest) / token_ticks, back * ticks_per_us - rest
      if part == 0 and whole < 10000 then
        call('HSET', key, field, string.format('%d%04d', now - back, whole))
      else
        call('HSET', key, field, string.format('%d:%d:%d', whole, now - back, part))
      end
    end
    if whole then
      local lifetime = (full - left) / ticks_per_us / 1000
      if not value or call('PTTL', key) < lifetime then
        local expiry = string.format('%.0f', lifetime + math.min(lifetime, 30000) + 1000)
        if value then
          call('PEXPIRE', key, expiry)
        elseif call('PEXPIRE', key, expiry, 'NX') == 0 and call('PTTL', key) < lifetime then
          call('PEXPIRE', key, expiry) -- the key was there, with another rule
        end
      end
    end
    return level
  end
end
