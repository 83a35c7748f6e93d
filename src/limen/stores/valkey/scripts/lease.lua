
-- Leases on the tokens of a bucket (core/loans.py): who holds how many, in a field of their own beside the bucket. It
-- holds 32 bytes for each gateway: its name, then three doubles: the number of its last question, its tokens, until when.
--
-- ARGV   'lease'  holder  number  left  back  most  ttl_us  field, then one operation on a token bucket: its cost is
--                 what is wanted
-- reply  tokens lent now, tokens of `left` that are good, the level afterwards in ticks

if args[1] == 'lease' then
  local FIRST_OP, WIDTH, MOST_HOLDERS = 9, 32, 128
  local holder, ends = args[2], now + number(args[7])

  -- What others hold, packed, and their sum; the number and tokens of this gateway.
  local function books(stored)
    local others, on_loan, count, last, mine = {}, 0, 0, 0, 0
    for at = 1, #stored - WIDTH + 1, WIDTH do
      local name, sequence, tokens, until_ = struct.unpack('<c8ddd', stored, at)
      until_ = math.min(until_, ends) -- the clock may have stepped back: nobody holds for longer than from now
      if until_ > now then
        if name == holder then
          last, mine = sequence, tokens
        else
          count, on_loan = count + 1, on_loan + tokens
          others[count] = struct.pack('<c8ddd', name, sequence, tokens, until_)
        end
      end
    end
    return others, on_loan, count, last, mine
  end

  local function lease()
    local key, wants = KEYS[1], number(args[3])
    local stored = stored_fields(key, {args[FIRST_OP], args[8]})
    local op = read_op(1, stored[1], FIRST_OP)
    local others, on_loan, count, last, mine = books(stored[2] or '')
    if last >= wants then return {0, 0, op.seen[1]} end -- it was overtaken by a newer one
    local kept = math.min(number(args[4]), mine)
    local back = math.min(number(args[5]), mine - kept)
    op.left = math.min(op.c, op.left + back * op.a)
    local room = count < MOST_HOLDERS and number(args[6]) - on_loan - kept or 0
    local tokens = math.max(0, math.min(op.cost / op.a, room, floor(floor(op.left / op.a) / 2)))
    local value, lasts = op.kind.spend(op, tokens * op.a)
    if tokens > 0 or back > 0 or op.back then call('HSET', key, op.field, with_grant(op, value)) end
    if kept + tokens > 0 then
      others[#others + 1] = struct.pack('<c8ddd', holder, wants, kept + tokens, ends)
    end
    if #others > 0 then
      call('HSET', key, args[8], table.concat(others))
    elseif stored[2] then
      call('HDEL', key, args[8])
    end
    if op.granted > 0 then lasts = outlives(lasts, op.granted_until - now) end
    keep(key, outlives(lasts, ends - now))
    op.value = value
    see(op)
    return {tokens, kept, op.seen[1]}
  end

  return lease()
end
