
-- Sliding window counter (core/sliding_window.py): spent in this window, its start, spent in the last one.

if any or wanted.s then
  kinds.s = { -- a capacity  b window_us  c unit_us  d window in units
    look = function(op)
      op.unit, op.most = 1, op.a
      local current, start, previous = load(op.value)
      op.known, op.back = current, current and start > now
      local windows = current and floor((now - start) / op.b) or 2
      if windows >= 2 then
        current, start, previous = 0, now, 0
      elseif windows == 1 then
        current, start, previous = 0, start + op.b, current
      end
      op.start, op.current = math.min(start, now), math.min(current, op.a)
      op.previous = math.min(previous, op.a)
      local fading = op.d - math.min(op.d, floor((now - op.start) / op.c))
      op.left = math.max(0, floor(((op.a - op.current) * op.d - op.previous * fading) / op.d))
      return op.current, op.previous, now - op.start
    end,
    spend = function(op, cost)
      local current, lasts = op.current + cost, op.start + op.b - now
      if current > 0 then lasts = lasts + op.b elseif op.previous == 0 then lasts = 0 end
      return dump(current, op.start, op.previous), lasts, op.start
    end,
    undo = function(op, cost, stamp)
      local current, previous = op.current, op.previous
      if op.start == stamp then
        current = math.max(0, current - cost)
      elseif op.start == stamp + op.b then
        previous = math.max(0, previous - cost)
      else
        return nil
      end
      return current + previous > 0 and dump(current, op.start, previous) or ''
    end,
    carry = function(op, how, new)
      local current, previous, before, after = 0, 0, op.a, new[1]
      if how == 'p' then -- rounded up
        current = after - math.min(after, scaled(before - op.current, after, before))
        previous = after - math.min(after, scaled(before - op.previous, after, before))
      elseif how == 'd' then
        local lowered = math.max(0, before - after)
        current = math.max(0, op.current - lowered)
        previous = math.max(0, op.previous - math.max(0, lowered - op.current))
      end
      return dump(current, op.start, previous)
    end,
  }
end
