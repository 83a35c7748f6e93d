
-- Sliding log (core/sliding_log.py): when each token was spent, eight bytes each, oldest first.

if any or wanted.l then
  local WIDTH = 8

  local function pack_moment(moment) return struct.pack('>I8', moment) end
  local function moment_at(log, index) return (struct.unpack('>I8', log, (index - 1) * WIDTH + 1)) end

  -- How many moments of the log are not after `moment`.
  local function count_until(log, size, moment)
    local low, high = 0, size
    while low < high do
      local middle = floor((low + high) / 2)
      if moment_at(log, middle + 1) <= moment then low = middle + 1 else high = middle end
    end
    return low
  end

  -- A log without moments that lie in the future: they are now.
  local function pulled_in(log, size)
    local past = count_until(log, size, now)
    return sub(log, 1, past * WIDTH) .. string.rep(pack_moment(now), size - past)
  end

  kinds.l = { -- a capacity  b window_us
    look = function(op)
      op.unit, op.most = 1, op.a
      local log = op.value or ''
      if #log == 0 or #log % WIDTH ~= 0 or string.byte(log) ~= 0 then log = '' end
      local size = #log / WIDTH
      op.known, op.back = size > 0, size > 0 and moment_at(log, size) > now
      if op.back then log = pulled_in(log, size) end
      local gone = count_until(log, size, now - op.b)
      log, size = sub(log, gone * WIDTH + 1), size - gone
      op.log, op.left = log, math.max(0, op.a - size)
      if size == 0 then return 0, 0 end
      local must_go = size + op.cost - op.granted - op.a
      local wait = must_go > 0 and moment_at(log, math.min(must_go, size)) + op.b - now or 0
      return wait, moment_at(log, size) + op.b - now
    end,
    spend = function(op, cost)
      local log = op.log .. string.rep(pack_moment(now), cost)
      if #log == 0 then return log, 0, now end
      return log, moment_at(log, #log / WIDTH) + op.b - now, now
    end,
    undo = function(op, cost, stamp)
      local size = #op.log / WIDTH
      local before, upto = count_until(op.log, size, stamp - 1), count_until(op.log, size, stamp)
      local back = math.min(cost, upto - before)
      return sub(op.log, 1, before * WIDTH) .. sub(op.log, (before + back) * WIDTH + 1)
    end,
    carry = function(op, how, new)
      local size, count, log = #op.log / WIDTH, new[1] - carried_left(op.left, op.a, new[1], how), {}
      if size == 0 then return '' end
      for i = 1, count do
        local at = ceil(i * size / count)
        log[i] = sub(op.log, (at - 1) * WIDTH + 1, at * WIDTH)
      end
      return table.concat(log)
    end,
  }
end
