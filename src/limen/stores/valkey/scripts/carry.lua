
-- Buckets whose limit becomes another one (core/carry.py). What is converted carries a stamp before what the algorithm
-- stored, behind what was granted: @<generation>:<until>:<a>:<b>:<c>:<d>; with the numbers of the limit that counts.
--
-- The numbers of an operation go on behind d, when its limit is new: generation, until, and the a b c d of the limit
-- before, as doubles, then how: 'p' proportional, 'd' additive, 'r' reset, 'a' as it is

local CARRY = '<dddddd'
local STAMP = '^@(%d+):(%d+):(%-?%d+):(%-?%d+):(%-?%d+):(%-?%d+);(.*)$' -- what began before 2025 is negative

-- amount * by / of, rounded down; beyond 2^53 as near as doubles are
local function scaled(amount, by, of)
  if of == 0 then return by end
  local x, y = by, of
  while y > 0 do x, y = y, x % y end
  by, of = by / x, of / x
  local rest = amount % of
  local whole = (amount - rest) / of
  local product = rest * by
  if product < 2 ^ 53 then return whole * by + (product - product % of) / of end
  return whole * by + floor(rest / of * by)
end

-- What is left of `before`, once that is `after`; a window keeps what was spent, if nothing else is said.
local function carried_left(left, before, after, how)
  if how == 'r' then return after end
  if how == 'p' then return math.min(after, scaled(left, after, before)) end
  if how == 'd' then return math.min(left, after) + math.max(0, after - before) end
  return math.max(0, after - (before - left))
end

local function count_by(op, numbers)
  op.a, op.b, op.c, op.d = numbers[1], numbers[2], numbers[3], numbers[4]
end

-- Convert what is stored, at once, whatever becomes of the question.
local function convert(op, how, before, now_by)
  if how == 'a' then return end
  count_by(op, before)
  op.kind.look(op)
  local value = op.known and op.kind.carry(op, how, now_by) or op.value
  count_by(op, now_by)
  op.value = value
end

-- Whether these can be the numbers of a limit: somebody may have written something else there.
local function make_sense(letter, numbers)
  local a, b, c, d = unpack(numbers)
  if letter == 'b' then return a > 0 and c >= 0 end
  if letter == 'c' then return b < c and c < d end
  return b > 0 and (letter ~= 's' or c > 0 and d > 0)
end

-- Sets op.stamp, which is written with the value, and by which numbers the bucket counts; true when it was converted.
local function carry(op)
  local generation, ends, how, before = 0, 0, 'a', nil
  if #op.numbers > 40 then
    local a, b, c, d
    generation, ends, a, b, c, d = struct.unpack(CARRY, op.numbers, 41)
    how, before = sub(op.numbers, 89, 89), {a, b, c, d}
    if ends <= now then generation = 0 end
  end
  local known, until_, a, b, c, d, rest = string.match(op.value or '', STAMP)
  local numbers = known and {number(a), number(b), number(c), number(d)}
  known, until_ = number(known) or 0, number(until_) or 0
  local good = rest and make_sense(op.letter, numbers)
  if rest then op.value = good and rest or '' end
  if until_ <= now or not good then known = 0 end
  if generation == 0 and known == 0 then return end
  if known > generation then
    op.stamp = format('@%d:%d:%d:%d:%d:%d;', known, until_, unpack(numbers))
    if op.a == numbers[1] and op.b == numbers[2] and op.c == numbers[3] then return end
    op.late = {op.a, op.c, op.b}
    if op.letter == 'b' then op.cost = op.cost / op.a * numbers[1] end
    return count_by(op, numbers)
  end
  op.stamp = format('@%d:%d:%d:%d:%d:%d;', generation, ends, op.a, op.b, op.c, op.d)
  if op.value and known < generation then
    convert(op, how, known > 0 and numbers or before, {op.a, op.b, op.c, op.d})
    return true
  end
end

-- What is left, in the words of the question: no more than a late limit knows of.
local function told(op)
  if not op.late then return op.left end
  if op.letter == 'b' then return math.min(op.late[2], scaled(op.left, op.late[1], op.a)) end
  return math.min(op.left, op.late[1])
end

-- All that is seen, with what was granted.
local function see(op)
  op.seen = {0, op.kind.look(op)}
  local left = told(op)
  op.seen[1] = left + op.granted * (op.late and op.letter == 'b' and op.late[1] or op.unit)
  if op.late and op.letter == 's' then
    op.seen[2], op.seen[3], op.seen[4] = op.late[1] - left, 0, math.min(op.seen[4], op.late[3])
  end
end
