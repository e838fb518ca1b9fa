"""The operator beside a proxy that brings about one fault at one of its requests, again and again at another one."""
