
-- Token bucket (core/token_bucket.py): whole tokens, and since when they were there. 100/minute, two requests 10 ms
-- apart, leave 60480000000000099 and then 60480000000000098.

local function dump_level(level, token_ticks, ticks_per_us)
  local rest = level % token_ticks
  if rest == 0 then return dump(level / token_ticks, now, 0) end
  local back = ceil(rest / ticks_per_us) -- without a refill there is never a rest
  return dump((level - rest) / token_ticks, now - back, back * ticks_per_us - rest)
end
