"""`make sbom`: a CycloneDX bill of materials for each image, of what its archive holds, checked against the locks.

`image` reads archives, `contents` finds packages in them, `locks` reads the lock files, `document` writes and validates.
"""
