
-- The same for any number of them.

local function take_plain()
  local key, count, fields, levels = KEYS[1], #args / 2, {}, {}
  for i = 1, count do fields[i] = args[i * 2 - 1] end
  local stored = redis.pcall('HMGET', key, unpack(fields))
  if stored.err then return nil end
  local passes, known = true, false
  for i = 1, count do
    local level, _, _, _, cost = plain_level(stored[i], args[i * 2])
    if not level or cost == 0 then return nil end
    if level < cost then passes = false end
    if stored[i] then known = true end
    levels[i] = level
  end
  if not passes and not known then return levels end
  local writes, longest = {}, 0
  for i = 1, count do
    local token_ticks, per_us, full, cost = unpack_numbers(NUMBERS, args[i * 2])
    local left = levels[i]
    if passes then
      left = left - cost
      writes[i * 2 - 1], writes[i * 2] = fields[i], dump_level(left, token_ticks, per_us)
    end
    longest = math.max(longest, (full - left) / per_us)
  end
  if passes then call('HSET', key, unpack(writes)) end
  keep(key, longest)
  return levels
end

if plain then
  local levels = take_plain()
  if levels then return levels end
  local careful = {'take', '', format('%d', #args / 2)}
  for at = 1, #args, 2 do
    for _, word in ipairs({args[at], 'b', 'e', args[at + 1]}) do careful[#careful + 1] = word end
  end
  args = careful
end
