
-- ARGV   'take'  undo, then for each key: the number of its operations, and for each operation STRIDE arguments
--          mode: e enforce; s shadow: take when it is there, but stop nobody; c and a field: the same for a candidate
--                for the limit in that field, whose refusal does not stop it; E, S, C: the same, but take nothing
--          undo: where KEYS ends in a key that remembers what was taken, for UNDO_MS; else empty
-- reply  what was seen, in the order of the operations: an integer when that is one number, else a flat list.
--        Everything was taken if and only if every enforced operation found its cost.

if args[1] == 'take' then
  local UNDO_MS = 10000

  local function take()
    local at, ops, reply = 3, {}, {}
    local refusals, refused_by = 0, {} -- how many enforced operations found too little, and of which field
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
        if op.enforced and not op.fits then
          refusals, refused_by[op.field] = refusals + 1, (refused_by[op.field] or 0) + 1
        end
      end
      at, ends[k] = at + 1 + count * STRIDE, #ops
    end
    for _, op in ipairs(ops) do op.passes = refusals == (op.beside and refused_by[op.beside] or 0) end
    for k = 1, #ends do settle_key(KEYS[k], ops, (ends[k - 1] or 0) + 1, ends[k]) end
    if remembers then
      local taken = {}
      for _, op in ipairs(ops) do taken[#taken + 1] = op.taken end
      if refusals == 0 or #taken > 0 then call('SET', KEYS[#KEYS], cmsgpack.pack(taken), 'PX', UNDO_MS) end
    end
    if #reply == 1 then return reply[1] end
    return reply
  end

  return take()
end
