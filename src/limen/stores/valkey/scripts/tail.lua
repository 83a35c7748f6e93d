local jobs = {take = take, undo = undo, grant = grant, acquire = acquire, renew = renew, release = release}
return jobs[args[1]]()
