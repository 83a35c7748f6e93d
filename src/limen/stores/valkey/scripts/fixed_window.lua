
-- Fixed windows (core/fixed_window.py, core/calendar_window.py): tokens used, and when the window ends.

if any or wanted.f or wanted.c then
  local function look_window(op, ends)
    op.unit, op.most = 1, op.a
    local used, until_, _ = load(op.value)
    op.known, op.back = used, used and until_ > ends
    op.used, op.ends = 0, ends
    if used and until_ > now then
      op.used, op.ends = math.min(used, op.a), math.min(until_, ends)
    end
    op.left = op.a - op.used
    return op.ends - now
  end

  local function spend_window(op, cost)
    local used = op.used + cost
    return dump(used, op.ends, 0), used > 0 and op.ends - now or 0, op.ends
  end

  local function carry_window(op, how, new)
    return dump(new[1] - carried_left(op.left, op.a, new[1], how), op.ends, 0)
  end

  local function undo_window(op, cost, stamp)
    if op.ends ~= stamp then return nil end
    return op.used > cost and dump(op.used - cost, op.ends, 0) or ''
  end

  -- When the window around this moment ends, from one that the caller knows: [start, stop), and `next` ends the next.
  -- The caller's clock may be a little off; further away windows are taken to be as long as the nearest known one.
  local function end_of_window(start, stop, next)
    if now < start then return start - floor((start - now - 1) / (stop - start)) * (stop - start) end
    if now < stop then return stop end
    if now < next then return next end
    return next + (floor((now - next) / (next - stop)) + 1) * (next - stop)
  end

  kinds.f = { -- a capacity  b window_us
    look = function(op) return look_window(op, now + op.b) end,
    spend = spend_window, undo = undo_window, carry = carry_window,
  }

  kinds.c = { -- a capacity  b start  c end  d end of the next
    look = function(op) return look_window(op, end_of_window(op.b, op.c, op.d)) end,
    spend = spend_window, undo = undo_window, carry = carry_window,
  }
end
