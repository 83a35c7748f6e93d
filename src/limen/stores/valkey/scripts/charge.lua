
-- KEYS   the bucket's; and where something is taken, one that remembers for MEMORY_MS that it was
-- ARGV   'charge'  most, then one operation: its cost is taken, or as much as is there; then no more than `most` is
--        left, in the unit of what is seen, when that is not empty
-- reply  whole tokens that were taken under this name, now or before, and what is seen now

if args[1] == 'charge' then
  local MEMORY_MS = 600000

  -- What goes from the bucket, and how many granted tokens: as in a take, and at last the fraction of a token.
  local function drained(op, amount)
    local own = math.min(amount, op.left - op.left % op.unit)
    local tokens = math.min(ceil((amount - own) / op.unit), op.granted)
    return math.min(op.left, amount - tokens * op.unit), tokens
  end

  local function lower(op, amount)
    local own, tokens = drained(op, amount)
    op.granted = op.granted - tokens
    local value, lasts = op.kind.spend(op, own)
    if op.granted > 0 then lasts = outlives(lasts, op.granted_until - now) end
    call('HSET', KEYS[1], op.field, with_grant(op, value))
    keep(KEYS[1], lasts)
    op.value = value
  end

  local function charge()
    local stored = stored_fields(KEYS[1], {args[3]})
    local op, most = read_op(1, stored[1], 3), number(args[2])
    local there, due, taken = op.left + op.granted * op.unit, op.cost, 0
    if most and op.late and op.letter == 'b' then most = scaled(most, op.a, op.late[1]) end
    if due > 0 then
      taken = floor(math.min(due, there) / op.unit)
      if not call('SET', KEYS[2], format('%d', taken), 'PX', MEMORY_MS, 'NX') then
        due, taken = 0, number(call('GET', KEYS[2])) or 0
      end
    end
    local amount = math.max(math.min(due, there), most and there - most or 0)
    if amount > 0 or op.back then lower(op, amount) end
    op.cost = 0 -- the wait is for nothing now
    see(op)
    return {taken, unpack(op.seen)}
  end

  return charge()
end
