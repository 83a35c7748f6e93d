
-- Every algorithm by its letter. `op` is one bucket and what is asked of it:
--
--   value a b c d   what is stored, and the numbers of the limit, in the order in which script.py sends them
--   cost            what is asked for;  unit  what one token of it is (ticks, or 1);  most  the most that can be had
--
-- look(op)         sets op.left, what is there, and op.back, whether the state lies in the future;
--                  returns what is seen besides `left`
-- spend(op, cost)  returns the new value, for how many microseconds it says anything, and the stamp by which
-- undo(op, cost, stamp)  finds what was taken; it returns the new value, '' when the bucket says nothing any more (also
--                        no window has begun then), or nil when what was taken is gone already
-- carry(op, how, new)    after a look: the value that says the same under the numbers `new` (carry.lua)

-- Only those that are asked for are made: in Lua a function is made anew whenever the script runs.

local wanted = {}
for i = 1, #args do wanted[args[i]] = true end
local any = args[1] == 'undo' -- what was taken says which
local kinds = {}

local function level_of(whole, anchor, part, token_ticks, ticks_per_us, full)
  local grown = (now - anchor) * ticks_per_us - part
  local level = whole * token_ticks
  if grown > 0 then level = level + grown end
  return level < full and level or full
end

local function fills_us(missing, ticks_per_us)
  if missing <= 0 then return 0 end
  return ticks_per_us > 0 and ceil(missing / ticks_per_us) or nil
end

kinds.b = { -- a token_ticks  b ticks_per_us  c full_ticks
  look = function(op)
    op.unit, op.most = op.a, op.c
    local whole, anchor, part = load(op.value)
    op.left = whole and level_of(whole, anchor, part, op.a, op.b, op.c) or op.c
    op.known, op.back = whole, whole and anchor > now
  end,
  spend = function(op, cost)
    local left = op.left - cost
    return dump_level(left, op.a, op.b), fills_us(op.c - left, op.b), 0
  end,
  undo = function(op, cost)
    if op.left + cost >= op.c then return '' end
    return dump_level(op.left + cost, op.a, op.b)
  end,
  carry = function(op, how, new)
    local token, full, level = new[1], new[3], new[3]
    if how == 'p' then
      level = scaled(op.left, full, op.c)
    elseif how == 'd' then
      level = scaled(op.left, token, op.a) + math.max(0, full / token - op.c / op.a) * token
    end
    return dump_level(math.min(full, level), token, new[2])
  end,
}
