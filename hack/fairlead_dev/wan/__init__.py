"""Emulated wide-area paths by `fairlead-wan` (hack/wan). Needs only the standard library."""
