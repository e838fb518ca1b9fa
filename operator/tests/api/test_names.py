"""Names of children: readable, unique, and never too long for Kubernetes."""

from __future__ import annotations

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.names import child_name, credentials_name

DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
ENDS = st.sampled_from(string.ascii_lowercase + string.digits)
JOB_NAMES = ENDS | st.builds("{}{}{}".format, ENDS, st.text(string.ascii_lowercase + string.digits + "-.", max_size=251), ENDS)
"""All names that Kubernetes takes. Made of parts: from a regular expression of that length it takes seconds."""
UID = "46f9a6a0-5969-41bd-8eca-0b5b71e7e836"


def test_a_childs_name_has_job_role_and_attempt() -> None:
    assert child_name("first", UID, "sender", 2) == "first-c2e569e6-sender-2"
    assert credentials_name("first", UID, 2) == "first-c2e569e6-credentials-2"


@given(JOB_NAMES, st.sampled_from(["sender", "receiver", "cleaner", "credentials"]))
def test_fits_a_label_whatever_the_jobs_name(job_name: str, role: str) -> None:
    name = child_name(job_name, UID, role, 101)
    assert len(name) <= 63 + (role == "credentials") * 5
    assert DNS_LABEL.match(name)


def test_jobs_of_the_same_name_have_different_children() -> None:
    assert child_name("first", "a", "sender", 1) != child_name("first", "b", "sender", 1)
