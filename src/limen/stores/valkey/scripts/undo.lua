
-- KEYS   as for the take, with the key that remembers
-- ARGV   'undo'  then the fields of the buckets that stay charged
-- reply  how many buckets were given back what was taken from them: none, when nothing was taken or it is known no more

if args[1] == 'undo' then
  local function undo_one(key, taken)
    local value = call('HGET', key, taken[2])
    if not value then return 0 end -- it has filled up, or was reset, and is full
    args = {taken[2], taken[3], 'E', sub(taken[7], 1, 40)} -- what was taken from a bucket was converted before
    local op = read_op(1, value, 1)
    op.granted = op.granted_until and op.granted + taken[5] or 0
    local given = op.kind.undo(op, taken[4], taken[6])
    if not given and taken[5] == 0 then return 0 end
    given = given or op.value or ''
    if given == '' and op.granted <= 0 then
      call('HDEL', key, taken[2])
    else
      call('HSET', key, taken[2], with_grant(op, given))
    end
    return 1
  end

  local function undo()
    local memory = KEYS[#KEYS]
    local record = call('GET', memory)
    if not record then return 0 end
    call('DEL', memory)
    local undone, kept = 0, {}
    for i = 2, #args do kept[args[i]] = true end
    for _, taken in ipairs(cmsgpack.unpack(record)) do
      if not kept[taken[2]] then undone = undone + undo_one(KEYS[taken[1]], taken) end
    end
    return undone
  end

  return undo()
end
