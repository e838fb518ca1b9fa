"""What active probing adds to passive probing: the paper's profile of whole flows on one path, and short bursts on paths never seen."""
