
-- Granted tokens stand before what the algorithm stored, as +<tokens>:<until>; and are spent after its own. A stamp
-- (carry.lua) stands between both.

local STRIDE = 4 -- field  letter  mode  numbers: a b c, cost, and d where there is one, as doubles; carry.lua: the rest

local function with_grant(op, value)
  local stored = op.stamp .. value
  if op.granted <= 0 then return stored end
  return format('+%d:%d;', op.granted, op.granted_until) .. stored
end

-- What nobody remembers was spent at the moment of the loss, but for a tenth.
local function remember_loss(op)
  local today = now
  now = lost
  op.kind.look(op)
  local tokens = op.most / op.unit
  op.value = op.kind.spend(op, (tokens - floor(tokens / 10)) * op.unit)
  now = today
end

local function read_op(key, value, at)
  local letter, mode, numbers = args[at + 1], args[at + 2], args[at + 3]
  local a, b, c, cost = struct.unpack(NUMBERS, numbers)
  local op = { -- with room for what else is kept in it, which is cheaper than to make room bit by bit
    key = key, field = args[at], kind = kinds[letter], letter = letter, numbers = numbers,
    enforced = mode == 'e' or mode == 'E', spends = mode == 'e' or mode == 's' or sub(mode, 1, 1) == 'c',
    beside = #mode > 1 and sub(mode, 2),
    a = a, b = b, c = c, d = #numbers > 32 and struct.unpack('<d', numbers, 33) or 0, cost = cost,
    value = value or nil, granted = 0, unit = 1, most = a, left = 0, known = false, back = false, fits = false,
    seen = false, used = 0, ends = 0, stamp = '', late = false,
  }
  local tokens, ends, rest = string.match(value or '', '^%+(%d+):(%d+);(.*)$')
  if tokens then
    op.value, op.had_grant = rest, true
    if number(ends) > now then op.granted, op.granted_until = number(tokens), number(ends) end
  end
  if carry(op) then call('HSET', KEYS[key], op.field, with_grant(op, op.value)) end
  if lost and not value and not call('HGET', KEYS[key], RESET) then remember_loss(op) end
  see(op)
  op.fits = cost <= (op.late and op.late[op.letter == 'b' and 2 or 1] or op.most) and op.seen[1] >= cost
  return op
end

local function outlives(one, other) -- nil is for ever
  if not one or not other then return nil end
  return math.max(one, other)
end

local function stored_fields(key, fields)
  local stored = redis.pcall('HMGET', key, unpack(fields))
  if not stored.err then return stored end
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored.err) end
  call('DEL', key) -- what is not a hash is not ours and would block this client for ever
  return {}
end

-- Take from one bucket if that passes, settle it, or leave it; the new value if there is one, and how long it must be kept.
local function settle(op)
  local taken = op.passes and op.spends and op.cost > 0 and op.fits
  local own, tokens = 0, 0
  if taken then
    own = math.min(op.cost, op.left - op.left % op.unit)
    tokens = (op.cost - own) / op.unit
    op.granted = op.granted - tokens
  end
  local value, lasts, stamp = op.kind.spend(op, own)
  if op.granted > 0 then lasts = outlives(lasts, op.granted_until - now) end
  if taken then op.taken = {op.key, op.field, op.letter, own, tokens, stamp, op.numbers} end
  if not (taken or op.back) then value = nil end
  return value and with_grant(op, value), lasts, taken or op.known or op.had_grant
end

local function write(key, writes, kept, lasts)
  if #writes > 0 then call('HSET', key, unpack(writes)) end
  if kept then keep(key, lasts) end
end

local function settle_key(key, ops, first, last)
  local writes, kept, longest = {}, false, 0
  for index = first, last do
    local value, lasts, known = settle(ops[index])
    if value then
      writes[#writes + 1] = ops[index].field
      writes[#writes + 1] = value
    end
    if known then kept, longest = true, outlives(longest, lasts) end
  end
  write(key, writes, kept, longest)
end
