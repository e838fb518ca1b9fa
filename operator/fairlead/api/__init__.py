"""The resources of `fairlead.io` as typed, frozen models: the only place where a field, label or reason is named."""
