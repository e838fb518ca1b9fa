"""What active probing adds to a passive look: the paper's profile of whole flows on one path, and short bursts on paths never seen."""
