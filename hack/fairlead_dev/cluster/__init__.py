"""A real Kubernetes cluster of network namespaces on one machine, for development, tests and the demo."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this runs with whatever python3 the machine has
    sys.exit("The local cluster needs Python 3.11 or newer; this is %d.%d." % sys.version_info[:2])  # noqa: UP031
