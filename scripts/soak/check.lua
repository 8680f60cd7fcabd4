-- One connection for each thread: the response is that of the request before. Each request has a number that nobody else has.
local route = "a"
local threads = {}
function setup(thread) thread:set("number", #threads + 1); table.insert(threads, thread) end
function init(args)
    route = args[1] or route
    math.randomseed(os.time() * 100 + number)
    asked, wrong, count, waiting = 0, 0, 0, nil
    mine = string.format("%s%d-%d", route, number, math.random(1e9))
end
function request()
    count = count + 1
    local sizes = { "0", "1k", "8k", "20k" }
    waiting = string.format("/%s/%s/%s-%d", route, sizes[count % 4 + 1], mine, count)
    return wrk.format("GET", waiting, { Host = route .. ".test" })
end
function response(status, headers, body)
    asked = asked + 1
    if status ~= 200 or headers["X-Path"] ~= waiting then
        wrong = wrong + 1
        io.write(string.format("wrong: %s got %s %s\n", tostring(waiting), tostring(status), tostring(headers["X-Path"])))
    end
end
function done()
    local all, bad = 0, 0
    for _, thread in ipairs(threads) do all = all + thread:get("asked"); bad = bad + thread:get("wrong") end
    print(string.format("checked %d wrong %d", all, bad))
end
