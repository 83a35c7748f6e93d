
-- ARGV   'grant'  tokens  for_us, then one operation; what was granted before is added, until the later moment
-- reply  what is seen now

if args[1] == 'grant' then
  -- No more than can be told exactly together with a full bucket.
  local function most_granted(op) return math.min(1000000000, floor((2 ^ 53 - op.most) / op.unit)) end

  local function grant()
    local key = KEYS[1]
    local stored = stored_fields(key, {args[4]})
    local op = read_op(1, stored[1], 4)
    local settled, lasts = op.kind.spend(op, 0)
    local value = op.back and settled or op.value or '' -- what is granted begins no window
    op.granted = math.min(op.granted + number(args[2]), most_granted(op))
    op.granted_until = math.max(op.granted_until or 0, now + number(args[3]))
    call('HSET', key, op.field, with_grant(op, value))
    keep(key, outlives(lasts, op.granted_until - now))
    see(op) -- the wait is another now
    if #op.seen == 1 then return op.seen[1] end
    return op.seen
  end

  return grant()
end
