
-- Granted tokens stand before what the algorithm stored, as +<tokens>:<until>; and are spent after its own.

local STRIDE = 4 -- field  letter  mode  numbers: a b c, cost, and d where there is one, as doubles

local function read_op(key, value, at)
  local op = {key = key, field = args[at], kind = kinds[args[at + 1]], letter = args[at + 1]}
  local mode = args[at + 2]
  op.enforced, op.spends = mode == 'e' or mode == 'E', mode == 'e' or mode == 's'
  op.numbers = args[at + 3]
  op.a, op.b, op.c, op.cost = struct.unpack(NUMBERS, op.numbers)
  op.d = #op.numbers > 32 and struct.unpack('<d', op.numbers, 33) or 0
  op.value, op.granted = value or nil, 0
  local tokens, ends, rest = string.match(value or '', '^%+(%d+):(%d+);(.*)$')
  if tokens then
    op.value, op.had_grant = rest, true
    if number(ends) > now then op.granted, op.granted_until = number(tokens), number(ends) end
  end
  op.seen = {0, op.kind.look(op)}
  op.seen[1] = op.left + op.granted * op.unit
  op.fits = op.cost <= op.most and op.seen[1] >= op.cost
  return op
end

local function with_grant(op, value)
  if op.granted <= 0 then return value end
  return format('+%d:%d;', op.granted, op.granted_until) .. value
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

-- Take from one bucket, settle it, or leave it; the new value if there is one, and how long it must be kept.
local function settle(op, passes)
  local taken = passes and op.spends and op.cost > 0 and op.fits
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

local function settle_key(key, ops, first, last, passes)
  local writes, kept, longest = {}, false, 0
  for index = first, last do
    local value, lasts, known = settle(ops[index], passes)
    if value then
      writes[#writes + 1] = ops[index].field
      writes[#writes + 1] = value
    end
    if known then kept, longest = true, outlives(longest, lasts) end
  end
  write(key, writes, kept, longest)
end

-- ARGV   'take'  undo, then for each key: the number of its operations, and for each operation STRIDE arguments
--          mode: e enforce; s shadow: take when it is there, but stop nobody; E, S the same, but take nothing
--          undo: where KEYS ends in a key that remembers what was taken, for UNDO_MS; else empty
-- reply  what was seen, in the order of the operations: an integer when that is one number, else a flat list.
--        Everything was taken if and only if every enforced operation found its cost.

local UNDO_MS = 10000

local function take()
  local at, ops, passes, reply = 3, {}, true, {}
  local remembers = args[2] ~= ''
  local ends = {}
  for k = 1, #KEYS - (remembers and 1 or 0) do
    local count, fields = number(args[at]), {}
    for i = 1, count do fields[i] = args[at + 1 + (i - 1) * STRIDE] end
    local stored = stored_fields(KEYS[k], fields)
    for i = 1, count do
      local op = read_op(k, stored[i], at + 1 + (i - 1) * STRIDE)
      ops[#ops + 1] = op
      for _, seen in ipairs(op.seen) do reply[#reply + 1] = seen end
      if op.enforced and not op.fits then passes = false end
    end
    at, ends[k] = at + 1 + count * STRIDE, #ops
  end
  for k = 1, #ends do settle_key(KEYS[k], ops, (ends[k - 1] or 0) + 1, ends[k], passes) end
  if remembers and passes then
    local taken = {}
    for _, op in ipairs(ops) do taken[#taken + 1] = op.taken end
    call('SET', KEYS[#KEYS], cmsgpack.pack(taken), 'PX', UNDO_MS)
  end
  if #reply == 1 then return reply[1] end
  return reply
end
