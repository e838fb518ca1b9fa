-- Health of Fairlead's resources for Argo CD, from their conditions: one script for all four kinds.
local status = obj.status or {}
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end

local function is(kind, value)
  return found[kind] ~= nil and found[kind].status == value
end

local function health(kind, result)
  return { status = result, message = found[kind] and found[kind].message or "" }
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "being deleted" }
end
if status.observedGeneration == nil or status.observedGeneration < obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not seen this version yet" }
end
if obj.kind ~= "TransferJob" then
  if is("Accepted", "False") then
    return health("Accepted", "Degraded")
  end
  return health("Accepted", "Healthy")
end
if is("Succeeded", "True") then
  return health("Succeeded", "Healthy")
end
if is("Failed", "True") then
  return health("Failed", "Degraded")
end
if is("Stalled", "True") then
  return health("Stalled", "Degraded")
end
if is("Suspended", "True") then
  return health("Suspended", "Suspended")
end
return health("Reconciling", "Progressing")
